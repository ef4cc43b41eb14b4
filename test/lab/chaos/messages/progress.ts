import type { MessageLab } from '../../faults/messages/message-lab.js';
import type { ConsumerPool } from './consumer-pool.js';
import type { MessageRun } from './message-run.js';

/**
 * Is shown a run while it goes on.
 *
 * @returns what ends it.
 */
export type Watch = (run: MessageRun, lab: MessageLab, pool: ConsumerPool) => () => void;

const PAUSE_MS = 2_000;

/** A line on standard error every other second. */
export const showProgress: Watch = (run, lab, pool) => {
  const startedAt = performance.now();
  const timer = setInterval(() => {
    const done = [
      `${Math.round((performance.now() - startedAt) / 1_000)} s`,
      `${run.published} published`,
      `${lab.wire.delivered} delivered`,
      `${lab.wire.unacknowledged} under way`,
      `${pool.deaths} kill -9`,
      `${lab.closes} channels closed`,
      `${pool.processes.length} consumers`,
    ];
    process.stderr.write(`${done.join('  ')}\n`);
  }, PAUSE_MS);
  return () => {
    clearInterval(timer);
  };
};
