import { abandoned } from './cases/abandoned.js';
import { amend } from './cases/amend.js';
import { beginAcquires } from './cases/begin-acquires.js';
import { beginRepeats } from './cases/begin-replays.js';
import { beginTakesOver } from './cases/begin-takes-over.js';
import { clockStepsBack } from './cases/clock-steps-back.js';
import { complete } from './cases/complete.js';
import { completeAfterTheRecord } from './cases/complete-after-the-record.js';
import { extend } from './cases/extend.js';
import { inspect } from './cases/inspect.js';
import { list } from './cases/list.js';
import { open } from './cases/open.js';
import { outcomeBytes } from './cases/outcome-bytes.js';
import { release } from './cases/release.js';
import type { StoreConformanceCase } from './kit/conformance-case.js';
import type { StoreHarness } from './kit/store-harness.js';

/** All cases, for a runner of your own. */
export const storeConformanceCases: readonly StoreConformanceCase[] = [
  ...beginAcquires,
  ...beginRepeats,
  ...beginTakesOver,
  ...clockStepsBack,
  ...extend,
  ...complete,
  ...completeAfterTheRecord,
  ...release,
  ...inspect,
  ...abandoned,
  ...list,
  ...amend,
  ...outcomeBytes,
  ...open,
];

/** What the kit needs of a test runner; Jest, Vitest, Mocha and node:test have it. */
export interface TestRunner {
  describe(name: string, define: () => void): unknown;
  it: RegisterTest;
  /** The runner's `it.skip`, for cases that need a clock the store lacks; without it, they are absent. */
  readonly skip?: RegisterTest;
}

type RegisterTest = (name: string, run: () => Promise<void>) => unknown;

/** The store that the conformance cases run against. */
export interface StoreUnderTest {
  readonly name: string;
  /** Called for every case. */
  create(): StoreHarness | Promise<StoreHarness>;
  /**
   * Whether `create` returns a clock. Without one, the cases with `needsClock` are skipped: durations and takeovers are
   * not tested.
   * @defaultValue true
   */
  readonly hasSteppableClock?: boolean;
}

/**
 * Registers the cases as tests, one group for each operation.
 *
 * @example
 * ```ts
 * describeStoreConformance({ describe, it, skip: it.skip }, {
 *   name: 'MyStore',
 *   create: () => {
 *     let now = Date.now();
 *     const store = new MyStore({ now: () => now });
 *     const clock = { now: () => now, step: (ms: number) => void (now += ms) };
 *     return { store, clock, dispose: () => store.close() };
 *   },
 * });
 * ```
 */
export function describeStoreConformance(runner: TestRunner, store: StoreUnderTest): void {
  const { it, skip } = runner;
  const { hasSteppableClock = true } = store;
  const operations = new Set(storeConformanceCases.map(({ operation }) => operation));
  runner.describe(`${store.name} conforms`, () => {
    for (const operation of operations) {
      runner.describe(operation, () => {
        for (const each of storeConformanceCases) {
          if (each.operation !== operation) continue;
          const register = each.needsClock && !hasSteppableClock ? skip : it;
          register?.(each.name, () => runCase(each, store));
        }
      });
    }
  });
}

async function runCase(each: StoreConformanceCase, store: StoreUnderTest): Promise<void> {
  const harness = await store.create();
  try {
    await each.run(harness);
  } finally {
    await harness.dispose?.();
  }
}
