import { useRedis } from '../../support/use-redis.js';
import { beforeEach, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import { beginCommand, completeCommand, leaseOf, newToken } from './support/commands.js';
import { userClient } from './support/fixture.js';

const server = useRedis();
let client: Redis;
let store: RedisIdempotencyStore;

beforeEach(() => {
  client = userClient(server.url);
  store = new RedisIdempotencyStore({ client });
});

const BODIES = {
  'no bytes': Buffer.of(),
  'every ASCII character': Buffer.from(Array.from({ length: 128 }, (_, code) => code)),
  'one byte that is no ASCII': Buffer.of(0x41, 0x80),
  'every byte': Buffer.from(Array.from({ length: 256 }, (_, code) => code)),
  'UTF-8 with a mark at its beginning': Buffer.from('\uFEFF{"name":"Zoë 𝒩"}'),
  'UTF-8 that is cut in a character': Buffer.from('{"name":"Zoë').subarray(0, -1),
  'text of 1,024 bytes': Buffer.alloc(1_024, 'text'),
  'text of 1,025 bytes': Buffer.alloc(1_025, 'text'),
  'a part of a larger buffer': Buffer.from('before{"id":1}after').subarray(6, 14),
};

it.each(Object.entries(BODIES))(
  'An outcome of %s stands in Redis byte for byte, and is replayed so',
  async (_, body) => {
    const begin = beginCommand();
    const begun = await store.begin(begin);
    if (begun.kind !== 'acquired') throw new Error(`not acquired: ${begun.kind}`);
    const bytes = new Uint8Array(body.buffer, body.byteOffset, body.length);
    const outcome = { header: 'header', body: bytes };
    await store.complete(leaseOf(begin, begun.fence), completeCommand({ outcome }));

    const stored = await client.getBuffer(`idem:1:${begin.recordKey}`);
    expect(stored?.subarray(stored.indexOf('\nheader\n') + 8)).toEqual(body);
    const replay = await store.begin({ ...begin, token: newToken() });
    expect(replay).toMatchObject({ kind: 'completed', outcome: { body } });
  },
);
