import { newProbeKey } from '../../core/record/record-key.js';
import { nodeClock } from '../../core/util/clock.js';
import { within } from '../../core/util/time.js';
import { hasCode, isIdempotencyError } from '../../core/errors/errors.js';
import { describeFailure } from '../../stores/redis/ioredis/error-classification.js';
import { resolveCommonOptions } from '../../stores/redis/redis-store-options.js';
import { keyStartOf } from '../../stores/redis/redis-idempotency-store.js';
import { infoFields } from '../../stores/redis/diagnosis/start-checks.js';
import { checkServices, StepChecks } from '../../core/store/diagnosis/check-steps.js';
import { error, findingsOf, ok, type Finding } from '../../core/store/diagnosis/finding.js';
import { checkClock, checkLatency } from '../../core/store/diagnosis/measure.js';
import { checkRights } from './redis-rights.js';
import {
  checkClusterInfo,
  checkRedisInfo,
  REDIS_WARNINGS,
} from '../../stores/redis/diagnosis/info-checks.js';
import {
  openCluster,
  openServer,
  type AskedRedis,
  type RedisDoctorOptions,
  type RedisSubject,
} from './redis-subject.js';
import { ServerAddress } from './server-address.js';

const TIMEOUT_MS = 2_000;
const DEFAULT_PORT = 6379;
const PUSH_REMEDY =
  'The user requires SUBSCRIBE, PUBLISH (on a cluster SSUBSCRIBE, SPUBLISH) and the channels of the key prefix.';

/** What stops the store's start where the user lacks rights, or the server is no Redis that keeps records. */
const WITHOUT_RIGHTS = /^The (?:user may not|server runs no scripts)/;

type Info = ReadonlyMap<string, string>;

/**
 * Checks a Redis server, a Cluster, or the primary of Sentinels.
 * @throws {@link IdempotencyOptionsError} when an option is invalid.
 */
export async function* diagnoseRedis(options: RedisDoctorOptions): AsyncGenerator<Finding> {
  const address = new ServerAddress(options.url, DEFAULT_PORT);
  yield* new RedisDiagnosis(options, address).run();
}

class RedisDiagnosis {
  constructor(
    private readonly options: RedisDoctorOptions,
    private readonly address: ServerAddress,
  ) {}

  async *run(): AsyncGenerator<Finding> {
    let server = await openServer(this.options, this.address);
    try {
      let started = await this.start(server);
      if (started === 'without_rights') {
        // A start that fails closes its connection.
        await server.close();
        server = await openServer(this.options, this.address);
        // It waits for the connection. The checks report why it fails.
        await inspectNone(server.store).catch(() => undefined);
        started = [];
      }
      const stop = started.find(({ verdict }) => verdict === 'error');
      if (stop === undefined) yield* this.started(server, started);
      else yield stop;
    } finally {
      await server.close();
    }
  }

  /** What stops the store's start is an error; what INFO says is for {@link checkRedisInfo}. */
  private async start({ store }: RedisSubject): Promise<Finding[] | 'without_rights'> {
    try {
      const found = findingsOf(await store.open(), REDIS_WARNINGS, this.redact);
      return found.filter(({ check }) => check === 'connection' || check === 'configuration');
    } catch (failure) {
      if (hasCode(failure, 'idempotency_options_invalid')) throw failure;
      const text = this.describe(failure);
      // The checks say which rights, or that it is a Sentinel.
      return WITHOUT_RIGHTS.test(text) ? 'without_rights' : [error('start', text)];
    }
  }

  private async *started(
    server: RedisSubject,
    warnings: readonly Finding[],
  ): AsyncGenerator<Finding> {
    const { shown, isEncrypted } = this.address;
    const info = await infoOf(server.client);
    if (info?.get('redis_mode') === 'sentinel') {
      yield error(
        'connection',
        `${shown} is a Sentinel. Add --sentinel with the name of the primary.`,
      );
      return;
    }
    if (info?.get('cluster_enabled') === '1') {
      yield* this.cluster(server.client);
      return;
    }
    const reached = this.options.sentinel === undefined ? shown : `the primary through ${shown}`;
    yield ok('connection', `Connected to ${reached} ${isEncrypted ? 'with' : 'without'} TLS.`);
    yield* info === undefined
      ? warnings
      : checkRedisInfo(info, ...(await settingsOf(server.client)));
    if (info?.get('role') !== 'slave') yield* this.operations(server);
  }

  /** @param client - of the server that the URL names. */
  private async *cluster(client: AskedRedis): AsyncGenerator<Finding> {
    const { options, address } = this;
    const state = await this.clusterState(client);
    yield state;
    // The client would wait until all slots are served.
    if (state.verdict !== 'ok') return;
    let cluster: RedisSubject;
    try {
      cluster = await openCluster(options, address);
    } catch (failure) {
      yield error(
        'connection',
        `${address.shown} belongs to a cluster, whose servers cannot be reached: ${this.describe(failure)}`,
      );
      return;
    }
    try {
      const primaries = cluster.primaries();
      yield ok(
        'connection',
        `Connected to the ${primaries.length} primaries of the cluster of ${address.shown}. An application passes a Cluster of ioredis as "client": a "url" reaches one server.`,
      );
      for (const primary of primaries) yield* await this.primary(primary);
      yield* this.operations(cluster);
    } finally {
      await cluster.close();
    }
  }

  private async clusterState(client: AskedRedis): Promise<Finding> {
    try {
      const reply = await within(TIMEOUT_MS, client.call('CLUSTER', 'INFO'), nodeClock);
      return checkClusterInfo(infoFields(String(reply)));
    } catch (failure) {
      return error('cluster', this.describe(failure));
    }
  }

  /** Each message names its server. */
  private async primary(client: AskedRedis): Promise<Finding[]> {
    const { host = '', port = DEFAULT_PORT } = client.options ?? {};
    const info = await infoOf(client);
    const found =
      info === undefined
        ? [error('connection', 'The server does not reply to INFO.')]
        : checkRedisInfo(info, ...(await settingsOf(client)));
    return found.map((finding) => ({ ...finding, message: `${host}:${port}: ${finding.message}` }));
  }

  /** The checks that send commands of the store. */
  private async *operations(subject: RedisSubject): AsyncGenerator<Finding> {
    const { store, client, primaries, isCluster } = subject;
    const { keyPrefix } = resolveCommonOptions({ keyPrefix: this.options.keyPrefix });
    const key = keyStartOf(keyPrefix) + newProbeKey(nodeClock);
    yield* await checkRights(client, key, isCluster, this.describe);
    const steps = await new StepChecks(store, PUSH_REMEDY).run(this.describe);
    yield* steps;
    if (steps.some(({ verdict }) => verdict === 'error')) return;
    try {
      yield await checkServices(store);
      yield await checkLatency(() => inspectNone(store));
      for (const primary of primaries()) yield await checkClock(() => timeOf(primary));
    } catch (failure) {
      yield error('connection', this.describe(failure));
    }
  }

  private readonly redact = (text: string): string => this.address.redact(text);

  private readonly describe = (failure: unknown): string =>
    this.redact(isIdempotencyError(failure) ? failure.message : describeFailure(failure));
}

/** A command of the store, about no record. */
function inspectNone(store: RedisSubject['store']): Promise<unknown> {
  return store.inspect(newProbeKey(nodeClock), { timeoutMs: TIMEOUT_MS });
}

/** Undefined if the user may not run INFO, or if there is no connection. */
async function infoOf(client: AskedRedis): Promise<Info | undefined> {
  try {
    return infoFields(await within(TIMEOUT_MS, client.info(), nodeClock));
  } catch {
    return undefined;
  }
}

/** What INFO does not contain. */
function settingsOf(client: AskedRedis) {
  return Promise.all([settingOf(client, 'appendfsync'), settingOf(client, 'maxmemory-clients')]);
}

/** Undefined if the user may not run CONFIG, as on most managed servers. */
async function settingOf(client: AskedRedis, name: string): Promise<string | undefined> {
  try {
    const reply = await within(TIMEOUT_MS, client.call('CONFIG', 'GET', name), nodeClock);
    // A list or, in the protocol's third version, an object.
    const value: unknown = Object.values(reply as object).at(-1);
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}

async function timeOf(client: AskedRedis): Promise<number> {
  const [seconds, microseconds] = (await within(
    TIMEOUT_MS,
    client.call('TIME'),
    nodeClock,
  )) as unknown[];
  return Number(seconds) * 1_000 + Number(microseconds) / 1_000;
}
