import { asError } from '../../core/errors/errors.js';
import { error, ok, type Finding } from '../../core/store/diagnosis/finding.js';
import type { IdempotencyStore } from '../../core/store/idempotency-store.js';
import { nodeClock } from '../../core/util/clock.js';
import { within } from '../../core/util/time.js';
import { redisStore } from '../../stores/redis/index.js';
import { clusterClient, CONNECT_TIMEOUT_MS, throughSentinel } from '../servers/redis-servers.js';
import type { ServerAddress } from '../servers/server-address.js';

export interface RedisDoctorOptions {
  readonly url: string;
  readonly keyPrefix?: string | undefined;
  /** The name of the primary, if the URL is that of a Sentinel. */
  readonly sentinel?: string | undefined;
}

/** Closes the store at the end. */
export async function* diagnose(store: IdempotencyStore): AsyncGenerator<Finding> {
  try {
    yield* store.diagnose();
  } finally {
    await store.close();
  }
}

/** Checks a Redis server, its cluster, or the primary of Sentinels. */
export async function* diagnoseRedis(
  { url, keyPrefix, sentinel }: RedisDoctorOptions,
  address: ServerAddress,
): AsyncGenerator<Finding> {
  const server =
    sentinel === undefined ? { url } : { connection: throughSentinel(address, sentinel) };
  const store = redisStore({ ...server, keyPrefix, onConnectionError: () => undefined });
  for await (const finding of diagnose(store)) {
    const { check, verdict, message } = finding;
    if (check === 'cluster' && verdict === 'ok') {
      yield* diagnoseCluster(keyPrefix, address);
      return;
    }
    const [sentence] = / is a Sentinel\./.exec(message) ?? [];
    yield sentence === undefined
      ? finding
      : error(check, `${address.shown}${sentence} Add --sentinel with the name of the primary.`);
  }
}

async function* diagnoseCluster(
  keyPrefix: string | undefined,
  address: ServerAddress,
): AsyncGenerator<Finding> {
  const { shown } = address;
  const client = await clusterClient(address, 'The doctor connects to a cluster with');
  try {
    const connecting = within(2 * CONNECT_TIMEOUT_MS, client.connect(), nodeClock);
    const failure = await connecting.then(() => undefined, asError);
    if (failure !== undefined) {
      yield error(
        'connection',
        `${shown} belongs to a cluster, whose servers cannot be reached: ${failure.message}`,
      );
      return;
    }
    for await (const finding of diagnose(redisStore({ client, keyPrefix }))) {
      const { check, verdict, message } = finding;
      const hint = ` of ${shown}. An application passes a Cluster of ioredis as "client": a "url" reaches one server.`;
      const isConnected = check === 'connection' && verdict === 'ok';
      yield isConnected ? ok(check, message.slice(0, -1) + hint) : finding;
    }
  } finally {
    client.disconnect();
  }
}
