import { Cluster, Redis } from 'ioredis';
import type { IdempotencyStore } from 'nestjs-idempotency';
import type { Fingerprint, OwnerToken, RecordKey } from 'nestjs-idempotency/store';
import { loadEntry } from '../library/built-entry.js';

/** How a Redis is reached. */
export interface Via {
  readonly url?: string;
  /** A Unix socket. */
  readonly path?: string;
  readonly cluster?: readonly { readonly host: string; readonly port: number }[];
  readonly pipelining: boolean;
  /** Of the store's keys, where it is not the usual one. */
  readonly keyPrefix?: string;
}

/** What is done over and over, each with a number of its own. */
export interface Tasks {
  /** First request of a key: claims it, and stores the outcome. */
  readonly pair: (key: string, body: Buffer) => Promise<void>;
  /** A retry of it. */
  readonly replay: (key: string, body: Buffer) => Promise<void>;
  readonly close: () => Promise<void>;
}

export const LEASE_MS = 10_000;
export const RETENTION_MS = 86_400_000;
export const MAX_EXECUTION_MS = 300_000;
const TIMEOUT_MS = 60_000;
export const TOKEN = 'dG9rZW5vZnRoZWJlbmNobQ' as OwnerToken;
export const FINGERPRINT = 'ZmluZ2VycHJpbnRvZnRoZQ' as Fingerprint;
/** Headers of 68 bytes, names and values. */
export const HEADER =
  '[1,201,{"content-type":"application/json; charset=utf-8","location":"/payments/0000042"}]';
/** What stands before the digest in the name of a record. */
export const KEY_PREFIX = 'idem:1:';

/** The store of a built library. */
export async function storeTasks(library: string, via: Via): Promise<Tasks> {
  const { redisStore } = await loadEntry<typeof import('nestjs-idempotency/redis')>(
    library,
    './redis',
  );
  const { keyPrefix, pipelining } = via;
  const connection = { enableAutoPipelining: pipelining };
  const client = via.cluster === undefined ? undefined : openRaw(via);
  const store =
    client !== undefined
      ? redisStore({ client, keyPrefix })
      : via.path === undefined
        ? redisStore({ url: via.url, connection, keyPrefix })
        : redisStore({ connection: { ...connection, path: via.path }, keyPrefix });
  await store.open();
  return tasksOf(store, () => client?.disconnect());
}

/** @param disconnect - what the store leaves open. */
export function tasksOf(store: IdempotencyStore, disconnect: () => void): Tasks {
  return {
    pair: async (key, body) => {
      const recordKey = key as RecordKey;
      const begun = await begin(store, recordKey);
      // Owned by a copy, where the connection stalled and it was sent again.
      if (begun.kind !== 'acquired' && begun.kind !== 'owned') {
        throw new Error(`begin answered ${begun.kind}`);
      }
      const { kind } = await store.complete(
        { recordKey, token: TOKEN, fence: begun.fence },
        {
          state: 'completed',
          outcome: { header: HEADER, body },
          retentionMs: RETENTION_MS,
          fingerprint: FINGERPRINT,
          whenGone: 'restore',
          timeoutMs: TIMEOUT_MS,
        },
      );
      if (kind !== 'ok') throw new Error(`complete answered ${kind}`);
    },
    replay: async (key, body) => {
      const begun = await begin(store, key as RecordKey);
      if (begun.kind !== 'completed') throw new Error(`begin answered ${begun.kind}`);
      expectLength(begun.outcome.body.length, body.length);
    },
    close: async () => {
      await store.close();
      disconnect();
    },
  };
}

function begin(store: IdempotencyStore, recordKey: RecordKey) {
  return store.begin({
    recordKey,
    token: TOKEN,
    fingerprint: FINGERPRINT,
    leaseMs: LEASE_MS,
    maxExecutionMs: MAX_EXECUTION_MS,
    recordRetentionMs: RETENTION_MS + MAX_EXECUTION_MS,
    notAfter: 0,
    onExpiredLease: 'takeover',
    timeoutMs: TIMEOUT_MS,
  });
}

// As long as those of the store, so that the same bytes go both ways.
const FIRST_LINE = `1790000000000000 ${TOKEN} 1 0 ${FINGERPRINT}`;
const IN_PROGRESS = `2p${FIRST_LINE}\n= 10000 300000 86700000 -\n`;
const COMPLETED = Buffer.from(`2c${FIRST_LINE}\n1790086400000\n${HEADER}\n`);

/** What ioredis does not declare: replies as bytes. */
interface BinaryClient {
  setBuffer(key: string, value: string | Buffer, ...options: (string | number)[]): Promise<unknown>;
  evalshaBuffer(
    sha1: string,
    keys: number,
    ...args: (string | Buffer | number)[]
  ): Promise<unknown>;
}

/** The least that keeps two requests apart: `SET NX GET`, then `SET XX`. No owner, no mismatch, no takeover. */
export function rawTasks(via: Via): Tasks {
  const client = openRaw(via);
  const binary = client as unknown as BinaryClient;
  const request = (key: string) =>
    binary.setBuffer(KEY_PREFIX + key, IN_PROGRESS, 'PX', RETENTION_MS, 'NX', 'GET');
  return {
    pair: async (key, body) => {
      if ((await request(key)) !== null) throw new Error('SET NX GET found the key');
      const value = Buffer.concat([COMPLETED, body]);
      const reply = await binary.setBuffer(KEY_PREFIX + key, value, 'PX', RETENTION_MS, 'XX');
      if (String(reply) !== 'OK') throw new Error(`SET XX answered ${String(reply)}`);
    },
    replay: async (key, body) => {
      const value = (await request(key)) as Buffer;
      expectLength(value.subarray(value.lastIndexOf(10) + 1).length, body.length);
    },
    close: async () => client.disconnect(),
  };
}

const REQUEST = `return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX', 'GET')`;
const FINISH = `return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'XX')`;

/** The same commands, each as a script of one line: what a script costs before it does anything. */
export async function scriptTasks(via: Via): Promise<Tasks> {
  const client = openRaw(via);
  const servers = client instanceof Cluster ? await nodesOf(client) : [client];
  const load = async (script: string) => {
    const sha1 = await Promise.all(servers.map((server) => server.script('LOAD', script)));
    return String(sha1[0]);
  };
  const [requestSha, finishSha] = [await load(REQUEST), await load(FINISH)];
  const binary = client as unknown as BinaryClient;
  const request = (key: string) =>
    binary.evalshaBuffer(requestSha, 1, KEY_PREFIX + key, IN_PROGRESS, RETENTION_MS);
  return {
    pair: async (key, body) => {
      if ((await request(key)) !== null) throw new Error('SET NX GET found the key');
      const value = Buffer.concat([COMPLETED, body]);
      const reply = await binary.evalshaBuffer(finishSha, 1, KEY_PREFIX + key, value, RETENTION_MS);
      if (String(reply) !== 'OK') throw new Error(`SET XX answered ${String(reply)}`);
    },
    replay: async (key, body) => {
      const value = (await request(key)) as Buffer;
      expectLength(value.subarray(value.lastIndexOf(10) + 1).length, body.length);
    },
    close: async () => client.disconnect(),
  };
}

async function nodesOf(cluster: Cluster): Promise<Redis[]> {
  // The nodes are known after the first answer.
  await cluster.get('any');
  return cluster.nodes('master');
}

function openRaw({ url, path, cluster, pipelining }: Via): Redis | Cluster {
  const options = { enableAutoPipelining: pipelining };
  if (cluster !== undefined) return new Cluster([...cluster], options);
  return path === undefined ? new Redis(url ?? '', options) : new Redis({ ...options, path });
}

function expectLength(length: number, expected: number): void {
  if (length !== expected) throw new Error(`a replay of ${length} B, not of ${expected} B`);
}
