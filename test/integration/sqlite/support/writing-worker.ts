/** A process that stores outcomes, and says which ones the store has acknowledged. */
import { writeSync } from 'node:fs';
import { sqliteStore } from 'nestjs-idempotency/sqlite';
import { beginCommand, completeCommand, leaseOf } from '../../../support/stores/commands.js';

interface Settings {
  readonly path: string;
  readonly writes: number;
  readonly atOnce: number;
}

const { path, writes, atOnce } = JSON.parse(process.env.TEST_SETTINGS ?? '') as Settings;
const store = sqliteStore({ path, synchronous: 'full' });
await store.open();
let left = writes;

async function writeSome(): Promise<void> {
  while ((left -= 1) >= 0) {
    const begin = beginCommand({ timeoutMs: 20_000 });
    const reply = await store.begin(begin);
    if (reply.kind !== 'acquired') throw new Error(reply.kind);
    const body = Buffer.from(begin.recordKey);
    const outcome = { header: 'written', body };
    const complete = completeCommand({ outcome, timeoutMs: 20_000 });
    const { kind } = await store.complete(leaseOf(begin, reply.fence), complete);
    if (kind !== 'ok') throw new Error(kind);
    // At once: what a stream has in memory is gone with the process.
    writeSync(1, `${JSON.stringify({ recordKey: begin.recordKey })}\n`);
  }
}

await Promise.all(Array.from({ length: atOnce }, writeSome));
await store.close();
