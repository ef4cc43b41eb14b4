import { newProbeKey } from '../../../core/record/record-key.js';
import { checkSteps } from '../../../core/store/diagnosis/check-steps.js';
import {
  error,
  findingsOf,
  messageOf,
  ok,
  warning,
  type Finding,
} from '../../../core/store/diagnosis/finding.js';
import { checkClock } from '../../../core/store/diagnosis/measure.js';
import type { Steps } from '../../../core/store/diagnosis/trial.js';
import type { StoreWarning } from '../../../core/store/idempotency-store.js';
import { isIdempotencyError } from '../../../core/errors/errors.js';
import { nodeClock } from '../../../core/util/clock.js';
import { within } from '../../../core/util/time.js';
import type { RedisLink, RedisServer, RequiredReplicas } from '../link/redis-link.js';
import type { ScriptSender } from '../scripts/script-sender.js';
import { checkClusterInfo, checkRedisInfo, REDIS_WARNINGS } from './info-checks.js';
import { checkServerRights } from './server-rights.js';
import { infoFields } from './start-checks.js';

const TIMEOUT_MS = 2_000;
const PUSH_REMEDY =
  'The user requires SUBSCRIBE, PUBLISH (on a cluster SSUBSCRIBE, SPUBLISH) and the channels of the key prefix.';

/** What stops the store's start where the user lacks rights, or the server is no Redis that keeps records. */
const WITHOUT_RIGHTS = /^The (?:user may not|server runs no scripts)/;

/** The store that is checked. */
type Subject = Steps & { readonly missedEntries?: number | undefined };

/** The store's connection, and what is said of it at the start. */
interface Session {
  readonly sender: ScriptSender;
  readonly settings: {
    readonly keyStart: string;
    readonly push: boolean;
    readonly waitReplicas: RequiredReplicas | undefined;
    /** The key of the journal, if it is on. */
    readonly stream: string | undefined;
  };
  check(): Promise<readonly StoreWarning[]>;
}

/**
 * Checks one server, the primary of Sentinels, or a cluster.
 * @throws {@link IdempotencyOptionsError} when an option is invalid.
 */
export async function* diagnoseRedis(
  store: Subject,
  connect: () => Promise<Session>,
): AsyncGenerator<Finding> {
  let session: Session;
  try {
    session = await connect();
  } catch (failure) {
    yield error('start', messageOf(failure));
    return;
  }
  yield* new RedisDiagnosis(store, session).run();
}

class RedisDiagnosis {
  private readonly link: RedisLink;
  private readonly isCluster: boolean;

  constructor(
    private readonly store: Subject,
    private readonly session: Session,
  ) {
    this.link = session.sender.link;
    this.isCluster = this.link.isCluster;
  }

  async *run(): AsyncGenerator<Finding> {
    const started = await this.start();
    const stop = started.find(({ check, verdict }) => verdict === 'error' && check !== 'role');
    if (stop === undefined) yield* this.started(started);
    else yield stop;
  }

  /** What stops the store's start is an error. */
  private async start(): Promise<Finding[]> {
    try {
      return findingsOf(await this.session.check(), REDIS_WARNINGS);
    } catch (failure) {
      const text = messageOf(failure);
      // The checks say which rights, or that it is a Sentinel.
      return WITHOUT_RIGHTS.test(text) ? [] : [error('start', text)];
    }
  }

  /** @param found - by the start, of which INFO says more. */
  private async *started(found: readonly Finding[]): AsyncGenerator<Finding> {
    const servers = this.link.servers?.() ?? [];
    const [first] = servers;
    if (first === undefined) {
      yield warning(
        'configuration',
        'The client does not ask servers one by one: their memory, persistence and clock were not checked. Run the doctor with the URL.',
      );
      yield* found;
      if (!found.some(({ verdict }) => verdict === 'error')) yield* this.operations(servers);
      return;
    }
    const { address, isEncrypted } = first;
    const info = await infoOf(first);
    if (info?.get('redis_mode') === 'sentinel') {
      yield error(
        'connection',
        `${address} is a Sentinel. Set "sentinels" and "name" of "connection" in place of "url".`,
      );
      return;
    }
    if (this.isCluster || info?.get('cluster_enabled') === '1') {
      const state = await this.clusterState(first);
      yield state;
      // The client would wait until all slots are served.
      if (state.verdict !== 'ok') return;
      if (!this.isCluster) {
        yield error(
          'connection',
          `${address} belongs to a cluster. Pass a Cluster of ioredis as "client": a "url" reaches one server.`,
        );
        return;
      }
      yield ok('connection', `Connected to the ${servers.length} primaries of the cluster.`);
    } else {
      yield ok('connection', `Connected to ${address} ${isEncrypted ? 'with' : 'without'} TLS.`);
    }
    if (info === undefined) yield* found;
    else for (const server of servers) yield* await this.server(server);
    if (!this.isCluster) yield* await this.journal(first);
    if (this.isCluster || info?.get('role') !== 'slave') yield* this.operations(servers);
  }

  /** Whether there is one, how far back it goes, and what it lacks. @returns nothing where there is none. */
  private async journal(server: RedisServer): Promise<Finding[]> {
    const { stream, keyStart } = this.session.settings;
    const prefix = keyStart.slice(0, keyStart.lastIndexOf(':', keyStart.length - 2));
    const key = stream ?? `${prefix}:journal`;
    const { missedEntries = 0 } = this.store;
    if (missedEntries > 0) {
      return [
        warning(
          'journal',
          `This process has changed ${missedEntries} records without an entry in ${key}: see the event journal_incomplete.`,
        ),
      ];
    }
    const length = await lengthOf(server, key);
    if (length === undefined) return [];
    const [[id = ''] = []] = (await asked(
      server,
      'XRANGE',
      key,
      '-',
      '+',
      'COUNT',
      '1',
    )) as string[][];
    const oldest = id === '' ? '' : `, the oldest of ${new Date(parseInt(id, 10)).toISOString()}`;
    return [ok('journal', `The stream ${key} has ${length} entries${oldest}.`)];
  }

  private async clusterState(server: RedisServer): Promise<Finding> {
    try {
      const reply = await within(TIMEOUT_MS, server.call('CLUSTER', 'INFO'), nodeClock);
      return checkClusterInfo(infoFields(String(reply)));
    } catch (failure) {
      return error('cluster', this.describe(failure));
    }
  }

  /** On a cluster, each message names its server. */
  private async server(server: RedisServer): Promise<Finding[]> {
    const info = await infoOf(server);
    const required = this.session.settings.waitReplicas?.count ?? 0;
    const found =
      info === undefined
        ? [error('connection', 'The server does not reply to INFO.')]
        : checkRedisInfo(info, required, ...(await settingsOf(server)));
    if (!this.isCluster) return found;
    return found.map((one) => ({ ...one, message: `${server.address}: ${one.message}` }));
  }

  /** The checks that send commands of the store. */
  private async *operations(servers: readonly RedisServer[]): AsyncGenerator<Finding> {
    const { sender, settings } = this.session;
    const key = settings.keyStart + newProbeKey(nodeClock);
    yield* await checkServerRights(sender, servers, key, this.describe);
    const remedy = settings.push ? PUSH_REMEDY : 'The option "push" is false.';
    if ((yield* checkSteps(this.store, remedy)) !== undefined) return;
    try {
      for (const server of servers) yield await checkClock(() => timeOf(server));
    } catch (failure) {
      yield error('connection', this.describe(failure));
    }
  }

  private readonly describe = (failure: unknown): string =>
    isIdempotencyError(failure) ? failure.message : this.link.failureOf(failure).cause;
}

function asked(server: RedisServer, command: string, ...args: string[]): Promise<unknown> {
  return within(TIMEOUT_MS, server.call(command, ...args), nodeClock);
}

/** Undefined if there is no such stream, or the user may not look at it: the start says whether he may add to it. */
async function lengthOf(server: RedisServer, key: string): Promise<number | undefined> {
  try {
    if ((await asked(server, 'TYPE', key)) !== 'stream') return undefined;
    return Number(await asked(server, 'XLEN', key));
  } catch {
    return undefined;
  }
}

/** Undefined if the user may not run INFO, or if there is no connection. */
async function infoOf(server: RedisServer): Promise<ReadonlyMap<string, string> | undefined> {
  try {
    return infoFields(String(await within(TIMEOUT_MS, server.call('INFO'), nodeClock)));
  } catch {
    return undefined;
  }
}

/** What INFO does not contain. */
function settingsOf(server: RedisServer) {
  return Promise.all([settingOf(server, 'appendfsync'), settingOf(server, 'maxmemory-clients')]);
}

/** Undefined if the user may not run CONFIG, as on most managed servers. */
async function settingOf(server: RedisServer, name: string): Promise<string | undefined> {
  try {
    const reply = await within(TIMEOUT_MS, server.call('CONFIG', 'GET', name), nodeClock);
    // A list or, in the protocol's third version, an object.
    const value: unknown = Object.values(reply as object).at(-1);
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}

async function timeOf(server: RedisServer): Promise<number> {
  const reply = await within(TIMEOUT_MS, server.call('TIME'), nodeClock);
  const [seconds, microseconds] = reply as unknown[];
  return Number(seconds) * 1_000 + Number(microseconds) / 1_000;
}
