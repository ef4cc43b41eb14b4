import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { isTestAll } from '../../support/jest/test-all.js';
import { checkRandomly } from '../../support/jest/random-runs.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { Encounters } from './encounter.js';
import { memoryPlace, postgresPlace, redisPlace, type Place } from './places.js';
import { ACTIONS, eachEncounter, encounters, INSTANTS, type Step } from './steps.js';

const redis = useRedis();
const postgres = usePostgres();

const TIMEOUT_MS = 1_200_000;

interface Where {
  readonly name: string;
  readonly open: () => Promise<Place>;
  readonly hasTransactions?: boolean;
  /** A push meets each so many of all encounters: on memory each. */
  readonly every: number;
  /** How many are under way at a time, each on a database of its own. */
  readonly atOnce?: number;
  /** Random ones: of `npm run test:all`, and of a push. */
  readonly runs: readonly [all: number, push: number];
}

const PLACES: readonly Where[] = [
  { name: 'memory', open: () => memoryPlace(), every: 1, runs: [10_000, 200] },
  { name: 'Redis', open: () => redisPlace(redis.url), every: 11, runs: [10_000, 50] },
  {
    name: 'PostgreSQL',
    open: async () => postgresPlace(await postgres.newDatabase()),
    hasTransactions: true,
    every: 23,
    atOnce: 6,
    runs: [10_000, 50],
  },
];

describe.each(PLACES)(
  'An attempt and an operator on $name',
  ({ open, hasTransactions = false, every, atOnce = 1, runs: [all, push] }) => {
    let met: Encounters[];
    beforeAll(async () => {
      const places = Array.from({ length: isTestAll ? atOnce : 1 }, () => open());
      met = await Promise.all(places.map(async (place) => Encounters.open(await place)));
    });
    afterAll(() => Promise.all(met.map((each) => each.close())));

    const check = async (list: readonly (readonly Step[])[]) => {
      const failures: (string | undefined)[] = [];
      const meeting = met.map(async (each, first) => {
        for (let at = first; at < list.length; at += met.length) {
          failures[at] = await each.failureOf(list[at]!);
        }
      });
      await Promise.all(meeting);
      return failures;
    };
    const covered = () => new Set(met.flatMap(({ coverage }) => [...coverage.keys()]));

    it(
      'meet: nothing happens that he did not order, no record is lost in silence, each act is audited',
      async () => {
        const chosen = (_: unknown, at: number) => isTestAll || at % every === 0;
        const failures = await check(eachEncounter(hasTransactions).filter(chosen));
        expect(failures.filter((failure) => failure !== undefined)).toEqual([]);
        if (!isTestAll && every > 1) return;
        const pairs = ACTIONS.flatMap((action) => INSTANTS.slice(1).map((at) => `${action} ${at}`));
        // A success after the operator's release stands, and is reported as late.
        const told = ['told superseded', 'told release_failed', 'told completed'];
        const missing = [...pairs, ...told].filter((each) => !covered().has(each));
        expect(missing).toEqual([]);
      },
      TIMEOUT_MS,
    );

    it(
      'meet in any order, at the same time, too',
      async () => {
        const values = encounters(hasTransactions);
        await checkRandomly({ values, runs: isTestAll ? all : push, atOnce: 50, check });
        const results = [...covered()].join('\n');
        for (const kind of ['ok', 'changed', 'running', 'too_fresh', 'not_applicable']) {
          expect(results).toContain(` ${kind}`);
        }
      },
      TIMEOUT_MS,
    );
  },
);
