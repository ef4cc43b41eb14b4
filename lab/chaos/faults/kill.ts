import { POINTS, TRANSACTIONAL_POINTS, type Point } from '../../faults/worker/mishap.js';
import type { Fault } from './fault.js';
import { repeatedly } from './repeatedly.js';

/** The share of keys that meet a crash, of those that begin while the named points are active. */
const CRASHES = 1 / 4;

/**
 * Workers die by kill -9, half of them at any instant, half at a named point of an attempt. Each injection
 * is a death.
 */
export const kill: Fault = {
  defaults: { leaseMs: 2_000, effectMs: 40, keysAtOnce: 16 },
  tolerates: ({ leaseMs }) => ({
    extraExecutions: 'reported to the second',
    brokenConnections: true,
    maxBlockedMs: leaseMs + 1_000,
  }),
  start({ plan: { transactional }, pool, random }) {
    let anyInstant = 0;
    const points = transactional ? TRANSACTIONAL_POINTS : POINTS;
    const named = () => pool.deaths - anyInstant;
    const stop = repeatedly(
      () => random.integer(200, 1_000),
      async () => {
        const slot = random.integer(0, pool.size - 1);
        // Where none is left, nothing is shown; and one that stands still is to go on afterwards.
        if (!pool.isHalfUp || !pool.isUp(slot) || pool.isStopped(slot)) return;
        anyInstant += 1;
        await pool.kill(slot);
      },
    );
    return {
      figures: () => ({
        'kill -9': pool.deaths,
        'of these at a named point': named(),
      }),
      injections: () => pool.deaths,
      mishap: (draw) =>
        draw.chance(CRASHES) && named() < anyInstant && pool.isHalfUp
          ? { point: draw.pick<Point>(points), action: { kind: 'crash' } }
          : undefined,
      stop,
    };
  },
};
