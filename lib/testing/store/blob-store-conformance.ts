import { blobs } from './cases/blobs.js';
import type { BlobStoreConformanceCase, BlobStoreHarness } from './kit/blob-case.js';
import type { TestRunner } from './store-conformance.js';

/** All cases of blob stores, for a runner of your own. */
export const blobStoreConformanceCases: readonly BlobStoreConformanceCase[] = blobs;

/** The blob store that the conformance cases run against. */
export interface BlobStoreUnderTest {
  readonly name: string;
  /** Called for every case. */
  create(): BlobStoreHarness | Promise<BlobStoreHarness>;
  /** Whether the cases run that store 100 MiB. @defaultValue false */
  readonly withLarge?: boolean;
}

/**
 * Registers the cases as tests, one group for each operation.
 *
 * @example
 * ```ts
 * describeBlobStoreConformance({ describe, it }, {
 *   name: 'MyBlobs',
 *   create: async () => {
 *     const store = new MyBlobs();
 *     await store.open();
 *     return { store, dispose: () => store.close() };
 *   },
 * });
 * ```
 */
export function describeBlobStoreConformance(runner: TestRunner, store: BlobStoreUnderTest): void {
  const { it } = runner;
  const { withLarge = false } = store;
  const cases = blobStoreConformanceCases.filter(({ isLarge }) => withLarge || !isLarge);
  runner.describe(`${store.name} conforms`, () => {
    for (const operation of new Set(cases.map((each) => each.operation))) {
      runner.describe(operation, () => {
        for (const each of cases.filter((some) => some.operation === operation)) {
          it(each.name, () => runCase(each, store));
        }
      });
    }
  });
}

async function runCase(each: BlobStoreConformanceCase, store: BlobStoreUnderTest): Promise<void> {
  const harness = await store.create();
  try {
    await each.run(harness);
  } finally {
    await harness.dispose?.();
  }
}
