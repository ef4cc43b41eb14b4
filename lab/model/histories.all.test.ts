import { randomInt } from 'node:crypto';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { migrate } from 'nestjs-idempotency/postgres';
import { compare, type Subject } from '../../test/integration/differential/compare.js';
import { withPostgresSubject } from '../../test/integration/differential/subjects/postgres-subject.js';
import { redisSubject } from '../../test/integration/differential/subjects/redis-subject.js';
import { usePostgres } from '../../test/support/postgres/use-postgres.js';
import { findSpin } from '../../test/support/provision/spin.js';
import { startRedis } from '../../test/support/redis/redis-server.js';
import { useServer } from '../../test/support/servers/use-server.js';
import { HISTORIES } from './checks.js';
import { Model } from './model.js';
import { stepsIn, type ModelStep } from './model-steps.js';
import { replay } from './replay.js';

/** Of each kind, the same ones each time: rare replies are among them. */
const RUNS = 150;
/** And others. */
const NEW_RUNS = 50;

/**
 * Only a release after a commit without a reply finds its own outcome. The next two take two runs to overlap in one way. The
 * operator of the model sends a change once, and none that does not apply.
 */
const RARE = [
  ...['release not_in_progress', 'completed superseded', 'failed superseded'],
  ...['amend already', 'amend not_applicable'],
];

function from(first: number, count: number): number[] {
  return Array.from({ length: count }, (_, at) => first + at);
}

function repliesIn(steps: readonly ModelStep[]): string[] {
  const commands = steps.filter(({ reply }) => reply !== undefined);
  return [...new Set(commands.map(({ name, reply }) => `${name} ${reply}`))].sort();
}

(findSpin() === undefined ? describe.skip : describe)('Histories that the model chooses', () => {
  const server = useServer(startRedis);
  const redis = useServer(
    () => new Redis(server.url, { maxRetriesPerRequest: 0 }),
    (it) => it.disconnect(),
  );
  const postgres = usePostgres();
  const newSeed = Number(process.env.RANDOM_SEED ?? randomInt(RUNS, 2 ** 30));
  const histories: { readonly command: string; readonly steps: readonly ModelStep[] }[] = [];
  let table: readonly ModelStep[];

  beforeAll(() => {
    const model = new Model();
    table = stepsIn(model.table([]));
    const seeds = [...from(1, RUNS), ...from(newSeed, NEW_RUNS)];
    for (const definitions of HISTORIES) {
      for (const seed of seeds) {
        const command = `-n${seed} -D${definitions.join(' -D')}`;
        histories.push({ command, steps: stepsIn(model.history(definitions, seed)) });
      }
    }
    model.remove();
  }, 600_000);

  it('have equal replies and records in the reference state machine', () => {
    const differing = histories.flatMap(({ command, steps }) => {
      const { difference } = replay(steps);
      return difference === undefined ? [] : [`spin ${command}\n${difference}`];
    });
    expect(differing).toEqual([]);
  });

  it('have every reply of every command that is not rare', () => {
    const isFrequent = (reply: string) => !RARE.includes(reply);
    const replies = repliesIn(histories.flatMap(({ steps }) => steps)).filter(isFrequent);
    expect(replies).toEqual(repliesIn(table).filter(isFrequent));
  });

  it.each<[string, (check: (subject: Subject) => Promise<unknown>) => Promise<unknown>]>([
    ['Redis', async (check) => check(await redisSubject(redis))],
    [
      'PostgreSQL',
      async (check) => {
        const url = await postgres.newDatabase();
        await migrate({ url });
        await withPostgresSubject(url, check);
      },
    ],
  ])(
    'have the same on %s',
    async (_, withSubject) => {
      const sequences = histories.map(({ steps }) => replay(steps).taken);
      await withSubject(async (subject) => {
        const differences = await compare(subject, sequences, () => undefined);
        expect(differences.filter((difference) => difference !== undefined)).toEqual([]);
      });
    },
    600_000,
  );
});
