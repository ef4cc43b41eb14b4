import type { MessageLab } from '../../faults/messages/message-lab.js';
import { everyMs } from '../progress.js';
import type { ConsumerPool } from './consumer-pool.js';
import type { MessageRun } from './message-run.js';

/**
 * Is shown a run while it goes on.
 *
 * @returns what ends it.
 */
export type Watch = (run: MessageRun, lab: MessageLab, pool: ConsumerPool) => () => void;

export const showProgress: Watch = (run, lab, pool) =>
  everyMs(2_000, () => [
    `${run.published} published`,
    `${lab.wire.delivered} delivered`,
    `${lab.wire.unacknowledged} under way`,
    `${pool.deaths} kill -9`,
    `${lab.closes} channels closed`,
    `${pool.processes.length} consumers`,
  ]);
