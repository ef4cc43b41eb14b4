import { usePostgres } from '../../support/postgres/use-postgres.js';
import { describe, expect, it } from '@jest/globals';
import { runJanitor } from './support/run-janitor.js';

const server = usePostgres();

describe('While first requests come and go', () => {
  it.each([false, true])(
    'each record is deleted once it has expired (a long transaction: %s)',
    async (hasLongTransaction) => {
      const { records, deleted, left } = await runJanitor(await server.newDatabase(), {
        rate: 300,
        seconds: 2,
        retentionMs: 300,
        intervalMs: 200,
        hasLongTransaction,
      });
      expect(records).toBeGreaterThan(0);
      expect(deleted).toBe(records);
      expect(left).toBe(0);
    },
    60_000,
  );
});
