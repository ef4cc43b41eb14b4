export {
  blobStoreConformanceCases,
  describeBlobStoreConformance,
  type BlobStoreUnderTest,
} from './blob-store-conformance.js';
export {
  describeStoreConformance,
  storeConformanceCases,
  type StoreUnderTest,
  type TestRunner,
} from './store-conformance.js';
export type { BlobStoreConformanceCase, BlobStoreHarness } from './kit/blob-case.js';
export type { StoreConformanceCase, StoreOperation } from './kit/conformance-case.js';
export type { SteppableClock, StoreHarness } from './kit/store-harness.js';
