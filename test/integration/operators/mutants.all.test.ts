import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { MemoryIdempotencyStore } from 'nestjs-idempotency/memory';
import type { Amend } from 'nestjs-idempotency/store';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { LUA_MISTAKES, SQL_MISTAKES } from '../differential/mutants.js';
import { Encounters } from './encounter.js';
import { memoryPlace, postgresPlace, redisPlace, type Place } from './places.js';
import { eachEncounter, encounters } from './steps.js';

const redis = useRedis();
const postgres = usePostgres();

const SEED = 1;
const RANDOM_ONES = 200;
const TIMEOUT_MS = 300_000;

/** @returns what is wrong with the first encounter that goes wrong. */
async function objection(opening: Promise<Place>): Promise<string> {
  const met = await Encounters.open(await opening);
  const some = eachEncounter(false).filter((_, at) => at % 5 === 0);
  const random = fc.sample(encounters(false), { seed: SEED, numRuns: RANDOM_ONES });
  try {
    for (const steps of [...some, ...random]) {
      const failure = await met.failureOf(steps);
      if (failure !== undefined) return failure;
    }
    return 'none';
  } finally {
    await met.close();
  }
}

/** A store that does something else than the operator has ordered. */
function amending(alter: (command: Amend, record: { readonly fence: number }) => Amend) {
  class AmendingStore extends MemoryIdempotencyStore {
    override async amend(command: Amend) {
      const record = (await super.inspect(command.recordKey)) ?? { fence: 0 };
      return super.amend(alter(command, record));
    }
  }
  return (options: { now: () => number }) => new AmendingStore(options);
}

const ACCEPTED = /^the result of \w+: "ok" in place of/;

/** What differs from the order in a script or a statement, and what is seen of it. */
const SEEN: Readonly<Record<string, RegExp>> = {
  'amend.lua: the fence that the operator saw is not compared': ACCEPTED,
  'amend.lua: a running lease does not refuse': ACCEPTED,
  "amend.lua: an owner's fence still fits": /^the fence after/,
  "amend.sql: an owner's fence still fits": /^the fence after/,
};

describe('The encounters detect that', () => {
  it.each<[string, ReturnType<typeof amending>, RegExp]>([
    [
      'a running lease does not refuse',
      amending((command) => ({ ...command, evenIfRunning: true })),
      ACCEPTED,
    ],
    [
      'the fence that the operator saw is not compared',
      amending(({ expected, ...command }, { fence }) => ({
        ...command,
        expected: { ...expected, fence },
      })),
      ACCEPTED,
    ],
    [
      'an outcome is dropped while it is fresh',
      amending((command) => ({ ...command, notBefore: 0 })),
      ACCEPTED,
    ],
    [
      'a redacted operation runs again',
      amending(({ change, ...command }) => ({
        ...command,
        change:
          change.kind === 'keep' && change.retentionMs === undefined
            ? { kind: 'release', tombstoneMs: 1_000, isTakeover: true }
            : change,
      })),
      /^the state after redact/,
    ],
  ])(
    'on memory, %s',
    async (_, open, seen) => {
      expect(await objection(memoryPlace(open))).toMatch(seen);
    },
    TIMEOUT_MS,
  );

  it.each([...LUA_MISTAKES, ...SQL_MISTAKES].filter(({ mistake }) => mistake in SEEN))(
    '$mistake',
    async ({ mistake, mutate }) => {
      const place = mistake.startsWith('amend.lua')
        ? redisPlace(redis.url, mutate)
        : postgresPlace(await postgres.newDatabase(), mutate);
      expect(await objection(place)).toMatch(SEEN[mistake]!);
    },
    TIMEOUT_MS,
  );
});
