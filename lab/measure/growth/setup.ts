import type { Platform, StoreKind } from '../../../test/support/http/combinations.js';
import type { Leak } from './leaks.js';

/** Which application is measured. */
export interface GrowthSetup {
  readonly platform: Platform;
  readonly store: StoreKind;
  /** Where the Redis store finds its server. */
  readonly redisUrl: string;
  /** What every request leaves behind, so that the measurement itself can be put to the test. */
  readonly leaks?: readonly Leak[];
}
