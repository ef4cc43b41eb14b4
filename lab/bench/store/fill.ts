import type { Redis } from 'ioredis';

/** Copies of one record, under as many other keys. */
const COPY = `
local value, ttl = redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])
for i = ARGV[2], ARGV[3] do
  redis.call('SET', ARGV[1] .. string.format('%012d', i), value, 'PX', ttl)
end`;

const AT_ONCE = 10_000;

/** Fills a server with records like the one that is there under `key`. */
export async function fill(client: Redis, key: string, records: number): Promise<void> {
  // As long, and of no worker: theirs have no hyphen.
  const prefix = 'idem:1:'.padEnd(key.length - 12, '-');
  for (let first = 1; first <= records; first += AT_ONCE) {
    const last = Math.min(first + AT_ONCE - 1, records);
    await client.eval(COPY, 1, key, prefix, first, last);
  }
}
