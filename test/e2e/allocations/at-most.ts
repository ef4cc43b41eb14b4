import type { Platform, StoreKind } from '../../support/http/combinations.js';
import type { Allocations } from './allocations.js';

export type Kind = 'first request' | 'replay';

/**
 * What one request may create besides what it would on the same route behind an interceptor that does nothing.
 * Bounds, not aims: `npm test -- test/e2e/allocations` prints the present numbers, and whoever lowers them
 * lowers these.
 */
export const AT_MOST: Readonly<
  Record<Platform, Readonly<Record<StoreKind, Readonly<Record<Kind, Allocations>>>>>
> = {
  express: {
    memory: {
      'first request': { promises: 18, timers: 0 },
      replay: { promises: 2, timers: 0 },
    },
    redis: {
      'first request': { promises: 22, timers: 0 },
      replay: { promises: 4, timers: 0 },
    },
  },
  fastify: {
    memory: {
      'first request': { promises: 19, timers: 0 },
      replay: { promises: 3, timers: 0 },
    },
    redis: {
      'first request': { promises: 23, timers: 0 },
      replay: { promises: 5, timers: 0 },
    },
  },
};
