import assert from 'node:assert/strict';
import type { IdempotencyStore } from '../support/internals/core.js';
import { storeConformanceCases } from 'nestjs-idempotency/testing/store';
import type { Clock } from './broken-stores.js';

/** Returns the names of the cases that a store fails. */
export async function refutations(create: (now: Clock) => IdempotencyStore): Promise<string[]> {
  const failed: string[] = [];
  for (const each of storeConformanceCases) {
    let now = 1_900_000_000_000;
    const store = create(() => now);
    const clock = { now: () => now, step: (ms: number) => void (now += ms) };
    try {
      await each.run({ store, clock });
    } catch (error) {
      assert.ok(error instanceof assert.AssertionError, `${each.name}: ${String(error)}`);
      failed.push(each.name);
    }
  }
  return failed;
}
