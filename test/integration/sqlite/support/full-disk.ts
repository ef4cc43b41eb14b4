/** A process whose records do not fit on the disk of their folder, which it alone sees. */
import { join } from 'node:path';
import type { StoreUnavailableError } from 'nestjs-idempotency';
import { sqliteStore } from 'nestjs-idempotency/sqlite';
import {
  acquire,
  beginCommand,
  completeCommand,
  newToken,
} from '../../../support/stores/commands.js';

const path = join(process.env.TEST_DIRECTORY ?? '', 'records.db');
let store = sqliteStore({ path });
await store.open();
const [before, large, small] = [await acquire(store), await acquire(store), await acquire(store)];
const kept = await store.complete(before, completeCommand());
const body = Buffer.alloc(4_000_000, 1);
const outcome = { header: 'too large', body };
// In one transaction, of which only the first has no room.
const together = await Promise.allSettled([
  store.complete(large, completeCommand({ outcome })),
  store.complete(small, completeCommand()),
]);
const refused = together[0].status === 'rejected' ? (together[0].reason as Error) : undefined;
const { code, isRejection, message } = refused as StoreUnavailableError;
const retried = await store.complete(large, completeCommand());

/** As a request after a restart. */
await store.close();
store = sqliteStore({ path });
await store.open();
const replays: string[] = [];
for (const { recordKey } of [before, large, small]) {
  const reply = await store.begin(beginCommand({ recordKey, token: newToken() }));
  replays.push(reply.kind);
}
const result = { kept, code, isRejection, message };
console.log(JSON.stringify({ ...result, small: together[1], retried, replays }));
await store.close();
