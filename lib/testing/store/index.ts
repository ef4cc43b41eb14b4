export {
  describeStoreConformance,
  storeConformanceCases,
  type StoreUnderTest,
  type TestRunner,
} from './store-conformance.js';
export type { StoreConformanceCase, StoreOperation } from './conformance-case.js';
export type { SteppableClock, StoreHarness } from './store-harness.js';
