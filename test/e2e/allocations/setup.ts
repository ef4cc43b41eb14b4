import type { Platform, StoreKind } from '../../support/http/combinations.js';

/** Which application is counted. */
export interface CountedSetup {
  readonly platform: Platform;
  readonly store: StoreKind;
  /** Where the Redis store finds its server. */
  readonly redisUrl: string;
}
