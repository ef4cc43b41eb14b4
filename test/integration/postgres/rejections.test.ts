import { expect, it } from '@jest/globals';
import { migrate, PostgresIdempotencyStore } from 'nestjs-idempotency/postgres';
import type { Fingerprint } from 'nestjs-idempotency/store';
import { watchedPool } from '../../support/postgres/watched-pool.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { beginCommand, completeCommand } from '../../support/stores/commands.js';
import { userPool } from './support/fixture.js';

const BODY_BYTES = 1_048_576;

const server = usePostgres();

it('a mismatch transfers no body, a replay does', async () => {
  const url = await server.newDatabase();
  await migrate({ url });
  let bytes = 0;
  const client = watchedPool(userPool(url), (_sent, result) => {
    bytes = JSON.stringify(result.rows).length;
    return result;
  });
  const store = new PostgresIdempotencyStore({ client, deleteExpired: false });
  const command = beginCommand();
  const { recordKey, token } = command;
  const begun = await store.begin(command);
  if (begun.kind !== 'acquired') throw new Error(`begin returned ${begun.kind}`);
  const outcome = { header: '[1,201]', body: Buffer.alloc(BODY_BYTES, 'a') };
  await store.complete({ recordKey, token, fence: begun.fence }, completeCommand({ outcome }));

  const other = beginCommand({ recordKey, fingerprint: 'another content' as Fingerprint });
  expect(await store.begin(other)).toEqual({ kind: 'mismatch' });
  expect(bytes).toBeLessThan(500);
  expect(await store.begin(beginCommand({ recordKey }))).toMatchObject({ kind: 'completed' });
  expect(bytes).toBeGreaterThan(BODY_BYTES);
});
