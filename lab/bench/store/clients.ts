import { Decoder, GlideClient, Script } from '@valkey/valkey-glide';
import { createClient, RESP_TYPES } from 'redis';
import type { IdempotencyStore } from 'nestjs-idempotency';
import { loadScripts } from '../../../test/support/internals/redis.js';
import { loadEntry } from '../library/built-entry.js';
import {
  FINGERPRINT,
  HEADER,
  KEY_PREFIX,
  LEASE_MS,
  MAX_EXECUTION_MS,
  RETENTION_MS,
  TOKEN,
  tasksOf,
  type Tasks,
  type Via,
} from './tasks.js';

/** A client of Redis besides ioredis. */
export type ClientName = 'node-redis' | 'valkey-glide';

interface Opened<Client> {
  readonly client: Client;
  readonly close: () => void;
}

async function openNodeRedis({ url = '' }: Via) {
  const client = createClient({ url, disableOfflineQueue: true });
  client.on('error', () => undefined);
  await client.connect();
  return { client, close: () => client.destroy() };
}

async function openGlide({ url = '' }: Via): Promise<Opened<GlideClient>> {
  const { hostname: host, port } = new URL(url);
  const client = await GlideClient.createClient({
    addresses: [{ host, port: Number(port) }],
    requestTimeout: 60_000,
  });
  return { client, close: () => client.close() };
}

/** The store of a built library, by a client of the application. */
export async function clientStoreTasks(
  library: string,
  name: ClientName,
  via: Via,
): Promise<Tasks> {
  let store: IdempotencyStore;
  let close: () => void;
  if (name === 'node-redis') {
    const { nodeRedisStore } = await loadEntry<typeof import('nestjs-idempotency/node-redis')>(
      library,
      './node-redis',
    );
    const opened = await openNodeRedis(via);
    store = nodeRedisStore({ client: opened.client });
    close = opened.close;
  } else {
    const { glideStore } = await loadEntry<typeof import('nestjs-idempotency/valkey-glide')>(
      library,
      './valkey-glide',
    );
    const opened = await openGlide(via);
    store = glideStore({ client: opened.client });
    close = opened.close;
  }
  await store.open();
  return tasksOf(store, close);
}

/** Runs one of the store's scripts, and returns its reply as bytes. */
type Run = (key: string, args: (string | Buffer)[]) => Promise<unknown>;

/**
 * What one would write by hand around the store's scripts: the same two calls, with the same arguments. Nothing is sent
 * again, has a deadline, or is checked but for its kind.
 */
export async function byHandTasks(name: ClientName, via: Via): Promise<Tasks> {
  const { begin, complete, close } =
    name === 'node-redis' ? await nodeRedisByHand(via) : await glideByHand(via);
  const retention = String(RETENTION_MS);
  const recordRetention = String(RETENTION_MS + MAX_EXECUTION_MS);
  const durations = `${LEASE_MS} ${MAX_EXECUTION_MS} ${recordRetention} -`;
  const content = `${FINGERPRINT} restore`;
  const beginArguments = ['by-hand', TOKEN, FINGERPRINT, recordRetention, durations, '0', '8192'];
  return {
    pair: async (key, body) => {
      const begun = String(await begin(KEY_PREFIX + key, beginArguments));
      const [, kind, fence] = begun.split(' ');
      if (kind !== 'acquired') throw new Error(`begin answered ${begun}`);
      const own = `2p${fence} ${TOKEN} `;
      const args = ['by-hand', own, 'c', retention, content, HEADER, body];
      const completed = String(await complete(KEY_PREFIX + key, args));
      if (completed !== 'by-hand ok') throw new Error(`complete answered ${completed}`);
    },
    replay: async (key, body) => {
      const reply = (await begin(KEY_PREFIX + key, beginArguments)) as readonly Buffer[];
      const value = reply[2];
      if (value === undefined) throw new Error(`begin answered ${String(reply)}`);
      if (value.length < body.length) throw new Error(`a replay of ${value.length} B`);
    },
    close: async () => {
      close();
    },
  };
}

interface ByHand {
  readonly begin: Run;
  readonly complete: Run;
  readonly close: () => void;
}

const scripts = loadScripts();
const [BEGIN, COMPLETE] = [scripts.begin, scripts.complete].map(
  (script) => script.flagged ?? script,
) as [begin: typeof scripts.begin, complete: typeof scripts.complete];

/** With replies as bytes, and without the time-out that costs more than the rest. */
async function nodeRedisByHand(via: Via): Promise<ByHand> {
  const { client, close } = await openNodeRedis(via);
  const tuned = client.withCommandOptions({
    timeout: 0,
    typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer },
  });
  const running = async ({ text }: { readonly text: string }): Promise<Run> => {
    const sha1 = await client.scriptLoad(text);
    return (key, args) => tuned.evalSha(sha1, { keys: [key], arguments: args });
  };
  return { begin: await running(BEGIN), complete: await running(COMPLETE), close };
}

async function glideByHand(via: Via): Promise<ByHand> {
  const { client, close } = await openGlide(via);
  const running = ({ text }: { readonly text: string }): Run => {
    const script = new Script(text);
    const decoder = Decoder.Bytes;
    return (key, args) => client.invokeScript(script, { keys: [key], args, decoder });
  };
  return { begin: running(BEGIN), complete: running(COMPLETE), close };
}
