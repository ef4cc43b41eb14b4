import type { Mutant } from '../../../lab/faults/messages/mutant.js';
import type { PlantedMistake } from '../../support/planted/planted-mistake.js';

/** A mistake, the run that has to notice it, and the expected objection of its oracle. */
export interface MutantCase extends Mutant, PlantedMistake {
  /** Of the run. */
  readonly args: readonly string[];
}

const suite = 'test/faults/messages/rabbitmq.test.ts';

const HANDLING = 'transports/message/message-handling.ts';
const CHANNEL = 'transports/message/deliveries/rabbitmq-delivery.ts';

const BEGINNING = 'const call = isEnabled(context, operation, options)';
const SETTLED = 'if (code === undefined) return this.endOf(result);';
const ACKNOWLEDGE = "if (method === 'ack') this.own.ack(message);";
const TOO_EARLY = "this.delivery.rabbitMq?.acknowledge({ action: 'accept', method: 'ack' });";

/** Mistakes of consumers, each of them made in the library. */
export const MUTANTS: readonly MutantCase[] = [
  {
    mistake: 'acknowledges a message before it has an outcome',
    changes: [change(HANDLING, BEGINNING, `${TOO_EARLY} ${BEGINNING}`)],
    suite,
    args: [],
    objection: 'acknowledged without a stored outcome',
  },
  {
    mistake: 'acknowledges a message before it has an outcome, and dies',
    changes: [change(HANDLING, BEGINNING, `${TOO_EARLY} ${BEGINNING}`)],
    suite,
    args: ['--deliveries', '40', '--kills', '2', '--points', 'in_handler'],
    objection: 'a message without an effect',
  },
  {
    mistake: 'drops a copy of a message in progress',
    changes: [
      change(
        HANDLING,
        SETTLED,
        `if (code === 'idempotency_in_progress') return { kind: 'emitted', values: [], isStored: true }; ${SETTLED}`,
      ),
    ],
    suite,
    args: ['--when-in-progress', 'reject'],
    objection: 'acknowledged without a stored outcome',
  },
  {
    mistake: 'discards a copy of a message in progress',
    changes: [change(CHANNEL, "action === 'requeue'", 'false')],
    suite,
    args: ['--when-in-progress', 'reject'],
    objection: 'discarded by its consumer',
  },
  {
    mistake: 'requeues a copy of a message in progress at once',
    changes: [
      change(
        HANDLING,
        'const isHeld = await pauseDelivery(delivery, pauseMs, clock);',
        'const isHeld = pauseMs > 0;',
      ),
    ],
    suite,
    args: ['--when-in-progress', 'reject', '--messages', '10', '--effect-ms', '300'],
    // On a busy machine the loop is slow, but still visible.
    objection: /requeued more than 5 times in a second|redeliveries, and/,
  },
  {
    mistake: 'requeues a copy of a message in progress instead of waiting',
    changes: [
      change(
        HANDLING,
        '      options,\n',
        "      options: { ...options, duplicates: { ...options.duplicates, mode: 'reject' } },\n",
      ),
    ],
    suite,
    args: [],
    objection: 'redeliveries, and',
  },
  {
    mistake: 'acknowledges a message twice',
    changes: [change(CHANNEL, ACKNOWLEDGE, `${ACKNOWLEDGE} ${ACKNOWLEDGE}`)],
    suite,
    args: ['--messages', '4', '--deliveries', '8'],
    objection: 'was closed: 406 PRECONDITION_FAILED',
  },
  {
    mistake: 'treats a redelivered message as another one',
    changes: [
      change(
        HANDLING,
        'scope: await messageScope(context, route),',
        'scope: [...(await messageScope(context, route)), String(delivery.rabbitMq?.isRedelivered)],',
      ),
    ],
    suite,
    args: ['--closes', '1'],
    objection: 'handled again, and not reported as a takeover',
  },
  {
    mistake: 'does not report a takeover to the handler',
    changes: [
      change(
        'core/operation/execution-scope.ts',
        'isTakeover: attempt.isTakeover,',
        'isTakeover: false,',
      ),
    ],
    suite,
    args: ['--kills', '2', '--points', 'after_effect'],
    objection: 'handled again, and not reported as a takeover',
  },
];

function change(file: string, original: string, changed: string): Mutant['changes'][number] {
  return { file, original, changed };
}
