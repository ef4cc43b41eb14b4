import { randomInt } from 'node:crypto';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { migrate } from 'nestjs-idempotency/postgres';
import {
  embeddedPostgres,
  postgresServers,
  type PostgresUnderTest,
} from '../../support/postgres-servers.js';
import { usePostgres } from '../../support/use-postgres.js';
import { Coverage } from './coverage.js';
import { MUTANTS } from './postgres/mutants.js';
import { runSequences } from './postgres/run-sequences.js';

/**
 * DIFFERENTIAL_SEED replays: the sequence of that number comes first.
 * DIFFERENTIAL_SEQUENCES runs so many.
 */
const seed = Number(process.env.DIFFERENTIAL_SEED ?? randomInt(2 ** 31));
const sequences = Number(process.env.DIFFERENTIAL_SEQUENCES ?? 500);
const ENOUGH_FOR_ALL = 5_000;
const SEQUENCES_FOR_A_MUTANT = 5_000;
/** Always the same: some mistakes show in one sequence of thousands only. */
const SEED_FOR_MUTANTS = 1;

/** A migrated database for all tests of a `describe`. */
function useDatabase(version: PostgresUnderTest): { readonly url: string } {
  const server = usePostgres(version);
  const database = { url: '' };
  beforeAll(async () => {
    database.url = await server.newDatabase();
    await migrate(database);
  });
  return database;
}

describe.each(postgresServers)('the store on $name and the reference state machine', (version) => {
  const database = useDatabase(version);

  it('reply alike and leave the same record, whatever comes in whatever order', async () => {
    const coverage = new Coverage();
    const started = performance.now();
    const failure = await runSequences(database.url, { seed, sequences, watch: coverage.watch });
    if (process.env.DIFFERENTIAL_SEQUENCES !== undefined) {
      const seconds = Math.round((performance.now() - started) / 1000);
      process.stdout.write(
        `${version.name}, seed ${seed}: ${sequences} sequences in ${seconds} s\n${coverage.toString()}\n`,
      );
    }
    expect(failure).toBeUndefined();
    // In fewer, the rarest situation may fail to come up.
    if (sequences >= ENOUGH_FOR_ALL) expect(coverage.missing(10)).toEqual({});
  }, 600_000);
});

describe('the comparison notices a statement in which', () => {
  const database = useDatabase(embeddedPostgres);

  it.each(MUTANTS)(
    '$name',
    async ({ mutate }) => {
      const sequences = SEQUENCES_FOR_A_MUTANT;
      const failure = await runSequences(database.url, {
        seed: SEED_FOR_MUTANTS,
        sequences,
        mutate,
      });
      expect(failure).toContain('reference: ');
    },
    300_000,
  );
});
