import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { glideLink, nodeRedisLink } from '../../support/internals/redis.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { glideClient } from '../../support/redis/glide-clients.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { useServer } from '../../support/servers/use-server.js';
import { checkStore } from './check-store.js';
import { LUA_MISTAKES } from './mutants.js';
import { linkSubject, redisSubject, type LinkOptions } from './subjects/redis-subject.js';

const runs = isTestAll ? 20_000 : 1_000;
/** The rarest occurs in every hundredth sequence: of few sequences, by chance, in fewer. */
const sequencesForOne = isTestAll ? 200 : 1_000;

// Its memory is limited.
const server = useServer(startRedis);

const redis = useServer(
  () => new Redis(server.url, { maxRetriesPerRequest: 0 }),
  (it) => it.disconnect(),
);

describe('the scripts and the reference state machine', () => {
  it.each([
    ['with flags', {}],
    ['without flags, as for Redis 6.2', { without: ['flags'] }],
    ['with large outcomes', { isLarge: true }],
  ] as const)(
    'give equal replies and leave equal records for any sequence of commands: %s [P07]',
    async (_, options) => {
      const subject = await redisSubject(redis, options);
      const { coverage, checked } = await checkStore(subject, { runs });
      expect(coverage.missing(Math.floor(checked / sequencesForOne))).toEqual({});
    },
    600_000,
  );

  it.each([
    ['with flags', ['memory']],
    ['without flags', ['memory', 'flags']],
  ] as const)(
    'also while the server has free memory for no command but begin: %s',
    async (_, without) => {
      const subject = await redisSubject(redis, { without });
      const { checked } = await checkStore(subject, { runs: runs / 5 });
      expect(checked).toBeGreaterThan(0);
    },
    600_000,
  );

  // mutants.all.test.ts runs all mistakes.
  it('differ when a script contains a planted mistake', async () => {
    const { mutate, objection } = LUA_MISTAKES[0]!;
    const check = checkStore(await redisSubject(redis, { mutate }), { runs });
    await expect(check).rejects.toThrow(objection);
  });
});

interface Opened {
  readonly options: LinkOptions;
  readonly close: () => void;
}

async function nodeRedis(RESP: 2 | 3): Promise<Opened> {
  const client = createClient({ url: server.url, RESP });
  client.on('error', () => undefined);
  await client.connect();
  return { options: { link: nodeRedisLink(client) }, close: () => client.destroy() };
}

/** Commands of one tick may pass each other by it: the store, too, sends the next step when it has a reply. */
async function glide(): Promise<Opened> {
  const client = await glideClient(server.port);
  return { options: { link: glideLink(client), isInTurn: true }, close: () => client.close() };
}

describe.each([
  ['node-redis, by RESP 2', () => nodeRedis(2)],
  ['node-redis, by RESP 3', () => nodeRedis(3)],
  ['GLIDE', glide],
] as const)('the scripts over the link of %s, and the reference state machine', (_, open) => {
  const opened = useServer(open);

  it('give equal replies and leave equal records for any sequence of commands [P07]', async () => {
    const subject = await linkSubject(redis, opened.options);
    const { coverage, checked, calls } = await checkStore(subject, { runs });
    expect(coverage.missing(Math.floor(checked / sequencesForOne))).toEqual({});
    // In test:all, more than 200,000.
    expect(calls).toBeGreaterThan(10 * checked);
  }, 600_000);

  it('differ when a script contains a planted mistake', async () => {
    const { mutate, objection } = LUA_MISTAKES[0]!;
    const check = checkStore(await linkSubject(redis, { ...opened.options, mutate }), { runs });
    await expect(check).rejects.toThrow(objection);
  });
});
