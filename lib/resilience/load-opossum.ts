import type { EventEmitter } from 'node:events';
import { missingPeer } from '../core/util/missing-peer.js';

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

/** @throws {@link IdempotencyOptionsError} when opossum is not installed. */
export async function loadOpossum(): Promise<OpossumConstructor> {
  try {
    return (await import('opossum')).default;
  } catch (error) {
    throw missingPeer(error, 'opossum', 'The option "breaker" needs');
  }
}
