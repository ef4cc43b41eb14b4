import type { EventEmitter } from 'node:events';
import { createRequire } from 'node:module';
import { types } from 'node:util';
import { IdempotencyOptionsError } from '../core/errors.js';

/** What is used of opossum's circuit breaker: a structure, so that no declaration needs the package. */
export interface OpossumBreaker {
  fire(work: () => Promise<unknown>): Promise<unknown>;
  on(event: 'open' | 'halfOpen' | 'close', listener: () => void): unknown;
  on(event: 'failure', listener: (error: unknown) => void): unknown;
  shutdown(): void;
}

export interface OpossumOptions {
  readonly timeout: false;
  readonly errorThresholdPercentage: number;
  readonly volumeThreshold: number;
  readonly resetTimeout: number;
  readonly rollingCountBuckets: number;
  readonly rotateBucketController: EventEmitter;
  readonly rollingPercentilesEnabled: boolean;
  readonly enableSnapshots: boolean;
  readonly errorFilter: (error: unknown) => boolean;
}

export type OpossumConstructor = new (
  action: (work: () => Promise<unknown>) => Promise<unknown>,
  options: OpossumOptions,
) => OpossumBreaker;

/**
 * Loads the optional peer, only when a breaker is asked for. By `require`, because the module is made
 * synchronously; opossum is CommonJS.
 *
 * @param from where to look for it.
 * @throws {@link IdempotencyOptionsError} when it is not installed.
 */
export function loadOpossum(from: string = import.meta.url): OpossumConstructor {
  try {
    return createRequire(from)('opossum') as OpossumConstructor;
  } catch (error) {
    if (types.isNativeError(error) && 'code' in error && error.code === 'MODULE_NOT_FOUND') {
      throw new IdempotencyOptionsError(
        'The option "breaker" needs opossum, which is not installed: npm install opossum',
        { cause: error },
      );
    }
    throw error;
  }
}
