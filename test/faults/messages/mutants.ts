import type { Mutant } from '../../lab/faults/messages/mutant.js';
import type { PlantedMistake } from '../../support/planted-mistake.js';

/** A mistake, the run that has to notice it, and what its oracle has to object to. */
export interface MutantCase extends Mutant, PlantedMistake {
  /** Of the run. */
  readonly args: readonly string[];
}

const suite = 'test/faults/messages/rabbitmq.test.ts';

const HANDLING = 'transports/message/message-handling.ts';
const CHANNEL = 'transports/message/deliveries/attended-channel.ts';

const BEGINNING = 'const isProtected = isEnabled(';
const SETTLED = 'if (code === undefined) return this.endOf(result);';
const ACKNOWLEDGE = "if (verdict === 'accept') this.own.ack(message);";

/** Mistakes of consumers, each of them made in the library. */
export const MUTANTS: readonly MutantCase[] = [
  {
    mistake: 'acknowledges a message before it has an outcome',
    changes: [change(HANDLING, BEGINNING, `this.delivery.tell('accept'); ${BEGINNING}`)],
    suite,
    args: [],
    objection: 'acknowledged without a stored outcome',
  },
  {
    mistake: 'acknowledges a message before it has an outcome, and dies',
    changes: [change(HANDLING, BEGINNING, `this.delivery.tell('accept'); ${BEGINNING}`)],
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
    mistake: 'throws a copy of a message in progress away',
    changes: [change(CHANNEL, "verdict === 'requeue'", 'false')],
    suite,
    args: ['--when-in-progress', 'reject'],
    objection: 'thrown away by its consumer',
  },
  {
    mistake: 'hands a copy of a message in progress back at once',
    changes: [
      change(
        HANDLING,
        'const isOurs = await hold(delivery, pauseMs);',
        'const isOurs = pauseMs > 0;',
      ),
    ],
    suite,
    args: ['--when-in-progress', 'reject', '--messages', '10', '--effect-ms', '300'],
    // On a busy machine the loop is slow, and seen all the same.
    objection: /handed back more than 5 times in a second|redeliveries, and/,
  },
  {
    mistake: 'hands a copy of a message in progress back instead of waiting',
    changes: [
      change(HANDLING, 'options: protocol,', "options: { ...protocol, whenInProgress: 'reject' },"),
    ],
    suite,
    args: [],
    objection: 'redeliveries, and',
  },
  {
    mistake: 'tells the broker twice',
    changes: [change(CHANNEL, ACKNOWLEDGE, `${ACKNOWLEDGE} ${ACKNOWLEDGE}`)],
    suite,
    args: ['--messages', '4', '--deliveries', '8'],
    objection: 'was closed: 406 PRECONDITION_FAILED',
  },
  {
    mistake: 'takes a message that comes again for another one',
    changes: [
      change(
        HANDLING,
        'scope: await messageScope(context, route),',
        'scope: [...(await messageScope(context, route)), String(delivery.isRedelivered)],',
      ),
    ],
    suite,
    args: ['--closes', '1'],
    objection: 'handled again, and not reported as a takeover',
  },
  {
    mistake: 'does not tell a handler that it takes over',
    changes: [
      change('core/attempt-context.ts', 'isTakeover: attempt.isTakeover,', 'isTakeover: false,'),
    ],
    suite,
    args: ['--kills', '2', '--points', 'after_effect'],
    objection: 'handled again, and not reported as a takeover',
  },
];

function change(file: string, original: string, changed: string): Mutant['changes'][number] {
  return { file, original, changed };
}
