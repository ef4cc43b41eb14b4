import { ClientLog } from '../client-log.js';
import { extraExecutions } from '../extra-executions.js';
import { Objections } from '../objections.js';
import { early } from './early-acknowledgements.js';
import { requeuesPerSecond } from './requeues.js';
import type { MessageEvidence } from './message-evidence.js';
import { redeliveriesIn, type Redeliveries } from './redeliveries.js';
import { unexpectedCloses } from './unexpected-closes.js';

/** What a run came to. */
export interface MessageFigures extends Redeliveries {
  readonly messages: number;
  readonly published: number;
  readonly deliveries: number;
  /** How many messages consumers requeued by themselves. */
  readonly requeued: number;
  readonly mostRequeuesOfAMessageInASecond: number;
  readonly effects: number;
  /** Attempts that began where another one's lease had run out, whether that one had had its effect or not. */
  readonly takeovers: number;
  readonly messagesHandledAgain: number;
  readonly extraEffects: number;
  readonly reportedAsTakeover: number;
  readonly unreported: number;
  readonly withoutADeath: number;
  readonly lost: number;
  readonly acknowledgedTooEarly: number;
  readonly discarded: number;
  readonly leftInTheQueue: number;
  readonly deadLettered: number;
}

export interface MessageAction {
  readonly figures: MessageFigures;
  /** What must not have happened; empty if all is well. */
  readonly objections: readonly string[];
  /** Keys to inspect, some of each objection. */
  readonly suspects: readonly string[];
}

/** How often the broker may send messages again, for each that was under way on a channel when it ended. */
export const REDELIVERIES_PER_CLOSED = 1.5;

/** How often a message may be requeued within a second. */
export const REQUEUES_PER_SECOND = 5;

/** Judges a run by its ledger, by what went over the wire, and by what the broker has left. */
export function judgeMessages(evidence: MessageEvidence): MessageAction {
  const { published, ledger, events, wire, deaths, stoodStill, left, deadLettered } = evidence;
  const handled = new Set(ledger.map(({ key }) => key));
  const lost = [...published.keys()].filter((key) => !handled.has(key));
  const extras = extraExecutions({ ledger, events, clients: new ClientLog(), stuck: [], deaths });
  const unreported = extras.filter(({ reportedToSecond }) => !reportedToSecond);
  const dead = new Set([...deaths.keys(), ...stoodStill]);
  for (const event of events) if (event.type === 'lab:crash') dead.add(event.worker);
  const withoutADeath = extras.filter(({ before }) => !dead.has(before.worker));
  const tooEarly = early(wire.deliveries, events);
  const ended = (end: string) => wire.deliveries.filter((delivery) => delivery.end === end);
  const discarded = ended('discarded');
  const requeued = ended('requeued');
  const { most, hot } = requeuesPerSecond(requeued, REQUEUES_PER_SECOND);
  const again = redeliveriesIn(wire.deliveries, wire.closes);
  const keysOf = (found: readonly { readonly effect: { readonly key: string } }[]) =>
    found.map(({ effect }) => effect.key);

  const objections = new Objections();
  objections.to('a message without an effect', lost);
  objections.to('handled again, and not reported as a takeover', keysOf(unreported));
  objections.to('handled again, though its consumer lived', keysOf(withoutADeath));
  objections.to(
    'acknowledged without a stored outcome',
    tooEarly.map(({ key }) => key),
  );
  objections.to(
    'discarded by its consumer',
    discarded.map(({ key }) => key),
  );
  objections.to(`requeued more than ${REQUEUES_PER_SECOND} times in a second`, hot);
  const { redeliveries, unacknowledgedAtCloses } = again;
  if (redeliveries > REDELIVERIES_PER_CLOSED * unacknowledgedAtCloses) {
    objections.say(
      `${redeliveries} redeliveries, and ${unacknowledgedAtCloses} messages under way at closes`,
    );
  }
  for (const close of unexpectedCloses(evidence)) {
    objections.say(`a channel of ${close.consumer} was closed: ${close.reason ?? close.by}`);
  }
  for (const warning of new Set(evidence.warnings)) objections.say(`Node warns: ${warning}`);
  const leftInTheQueue = left.ready + left.unacked;
  if (leftInTheQueue > 0) objections.say(`${leftInTheQueue} messages are left in the queue`);
  if (deadLettered > 0) objections.say(`${deadLettered} messages were dead-lettered by the broker`);
  return {
    figures: {
      messages: published.size,
      published: [...published.values()].reduce((sum, copies) => sum + copies, 0),
      deliveries: wire.deliveries.length,
      ...again,
      requeued: requeued.length,
      mostRequeuesOfAMessageInASecond: most,
      effects: ledger.length,
      takeovers: events.filter(({ type }) => type === 'takeover').length,
      messagesHandledAgain: new Set(keysOf(extras)).size,
      extraEffects: extras.length,
      reportedAsTakeover: extras.length - unreported.length,
      unreported: unreported.length,
      withoutADeath: withoutADeath.length,
      lost: lost.length,
      acknowledgedTooEarly: tooEarly.length,
      discarded: discarded.length,
      leftInTheQueue,
      deadLettered,
    },
    objections: objections.all,
    suspects: objections.suspects,
  };
}
