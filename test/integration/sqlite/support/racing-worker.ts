/** A process that attempts every key eight times at once. An effect is a line in the ledger, by the attempt that acquired. */
import { appendFileSync } from 'node:fs';
import { sqliteStore } from 'nestjs-idempotency/sqlite';
import type { RecordKey } from '../../../support/internals/core.js';
import { beginCommand, completeCommand, leaseOf } from '../../../support/stores/commands.js';

interface Settings {
  readonly path: string;
  readonly ledger: string;
  readonly keys: readonly RecordKey[];
  readonly duplicates: number;
}

const { path, ledger, keys, duplicates } = JSON.parse(process.env.TEST_SETTINGS ?? '') as Settings;
const timeoutMs = 20_000;
const store = sqliteStore({ path, synchronous: 'normal' });
await store.open();
console.log(JSON.stringify({ kinds: ['ready'] }));
await new Promise((resolve) => process.stdin.once('data', resolve));

async function attempt(recordKey: RecordKey): Promise<string> {
  const begin = beginCommand({ recordKey, timeoutMs });
  const reply = await store.begin(begin);
  if (reply.kind !== 'acquired') return reply.kind;
  appendFileSync(ledger, `${recordKey}\n`);
  const lease = leaseOf(begin, reply.fence);
  return `acquired, ${(await store.complete(lease, completeCommand({ timeoutMs }))).kind}`;
}

const kinds: string[] = [];
for (const recordKey of keys) {
  const attempts = Array.from({ length: duplicates }, () => attempt(recordKey));
  kinds.push(...(await Promise.all(attempts)));
}
await store.close();
console.log(JSON.stringify({ kinds }));
process.stdin.destroy();
