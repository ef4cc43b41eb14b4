import { Cluster, Redis } from 'ioredis';
import type { RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import type { Fingerprint } from '../../../support/internals/core.js';
import type { RedisProxy } from '../../../support/redis/proxy/redis-proxy.js';
import {
  beginCommand,
  completeCommand,
  leaseOf,
  newRecordKey,
} from '../../../support/stores/commands.js';
import { until } from '../../../support/waiting/until.js';

/** How a relay gets out of step. */
export const SHIFTS = ['skip the reply', 'repeat the reply'] as const;

/** The requests whose replies are mixed up. */
export const CROWDS = ['many keys', 'one hot key'] as const;

interface Shifted {
  readonly store: RedisIdempotencyStore;
  /** One proxy for each server. */
  readonly proxies: readonly RedisProxy[];
  readonly shift: (typeof SHIFTS)[number];
  readonly crowd: (typeof CROWDS)[number];
}

export interface Seen {
  /** Replies that belong to another request. */
  readonly foreign: readonly string[];
  /** The codes of the errors. */
  readonly codes: ReadonlySet<unknown>;
  /** The number of reported connections. */
  readonly reported: number;
}

const KEYS = 20;
const REQUESTS = 200;
const OTHER = 'another content' as Fingerprint;

/**
 * Retries finished requests, every second one with another content, while a relay loses the order of the replies. A
 * request with its own content must get the outcome of its key, one with another content a mismatch.
 */
export async function underShiftedReplies({
  store,
  proxies,
  shift,
  crowd,
}: Shifted): Promise<Seen> {
  let reported = 0;
  await store.open({ replyMismatched: () => (reported += 1), warned: () => undefined });
  const keys = Array.from({ length: crowd === 'many keys' ? KEYS : 1 }, newRecordKey);
  for (const recordKey of keys) {
    const begin = beginCommand({ recordKey, timeoutMs: 10_000 });
    const reply = await store.begin(begin);
    const lease = leaseOf(begin, reply.kind === 'acquired' ? reply.fence : -1);
    const body = Buffer.from(recordKey);
    await store.complete(lease, completeCommand({ outcome: { header: '{}', body } }));
  }
  const aims = proxies.map((proxy) => proxy.aim('begin', shift, { nth: 10 }));
  const foreign: string[] = [];
  const codes = new Set<unknown>();
  const request = async (i: number) => {
    const recordKey = keys[i % keys.length]!;
    const isOther = Math.floor(i / keys.length) % 2 === 1;
    const begin = beginCommand({ recordKey, ...(isOther ? { fingerprint: OTHER } : {}) });
    try {
      const reply = await store.begin(begin);
      const got =
        reply.kind === 'completed' ? Buffer.from(reply.outcome.body).toString() : reply.kind;
      if (got !== (isOther ? 'mismatch' : recordKey)) foreign.push(got);
    } catch (error) {
      codes.add((error as { code?: unknown }).code);
    }
  };
  await Promise.all(Array.from({ length: REQUESTS }, (_, i) => request(i)));
  if (aims.every(({ hits }) => hits === 0)) throw new Error('The relay has not shifted any reply.');
  for (const proxy of proxies) proxy.heal();
  return { foreign, codes, reported };
}

/** Waits until the store is in step again: a request gets its own reply. */
export async function untilInStep(store: RedisIdempotencyStore): Promise<void> {
  const begin = beginCommand();
  await until(async () => {
    const kind = await store.begin(begin).then(
      (reply) => reply.kind,
      () => undefined,
    );
    return kind === 'acquired' || kind === 'owned';
  });
}

/** Its place among the arguments of EVALSHA: after the SHA-1, the number of keys and the key. */
const NONCE = 3;

/** The planted mistake: any reply in the place of a command's reply is accepted. */
export function believing<Client extends Redis | Cluster>(client: Client): Client {
  if (client instanceof Cluster) {
    for (const node of client.nodes()) believing(node);
    client.on('+node', (node: Redis) => void believing(node));
    return client;
  }
  const binary = client as unknown as Record<'evalshaBuffer', Send>;
  const send = binary.evalshaBuffer.bind(client);
  binary.evalshaBuffer = async (...args) => renamed(await send(...args), args[NONCE]);
  return client;
}

/** The same mistake in a client of node-redis. */
export function believingNodeRedis<Client extends object>(client: Client): Client {
  const { masters, _self } = client as {
    readonly masters?: readonly { readonly client: object }[];
    readonly _self?: object;
  };
  if (masters !== undefined) {
    for (const node of masters) believingNodeRedis(node.client);
    return client;
  }
  // What views of the client inherit from, too.
  believingWords(_self ?? client, 'sendCommand');
  return client;
}

/** The same mistake in a client of GLIDE. */
export function believingGlide<Client extends object>(client: Client): Client {
  return believingWords(client, 'customCommand');
}

function believingWords<Client extends object>(client: Client, method: string): Client {
  const sender = client as unknown as Record<string, Send>;
  const send = sender[method]!.bind(client);
  sender[method] = async (words, options) => {
    const reply = await send(words, options);
    const [name, ...args] = words as readonly unknown[];
    return name === 'EVALSHA' ? renamed(reply, args[NONCE]) : reply;
  };
  return client;
}

/** As if it were the reply to the command with this nonce. */
function renamed(reply: unknown, nonce: unknown): unknown {
  const own = (head: Buffer) => Buffer.from(head.toString().replace(/^\S+/, String(nonce)));
  if (Array.isArray(reply)) return [own(reply[0] as Buffer), ...(reply.slice(1) as unknown[])];
  return Buffer.isBuffer(reply) ? own(reply) : reply;
}

type Send = (...args: unknown[]) => Promise<unknown>;
