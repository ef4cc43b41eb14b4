import { beforeEach, describe, expect, it } from '@jest/globals';
import { recordKeyOf } from '../extra-executions.js';
import type { Effect, EventLine } from '../worker/lines.js';
import { FORGED_TAG_REJECTION } from './worker/settings.js';
import type { MessageEvidence } from './message-evidence.js';
import { judgeMessages } from './message-oracle.js';
import type { WireClose, WireDelivery } from './wire/wire-log.js';

const KEY = 'a message';
const RECORD = recordKeyOf(KEY);

describe('the oracle of messages', () => {
  let evidence: MessageEvidence & {
    published: Map<string, number>;
    ledger: Effect[];
    events: EventLine[];
    wire: { deliveries: WireDelivery[]; closes: WireClose[] };
    deaths: Map<string, number>;
    stoodStill: Set<string>;
    closesAsked: Map<string, number>;
  };

  beforeEach(() => {
    evidence = {
      published: new Map([[KEY, 1]]),
      ledger: [],
      events: [],
      wire: { deliveries: [], closes: [] },
      deaths: new Map(),
      stoodStill: new Set(),
      closesAsked: new Map(),
      warnings: [],
      endedAt: 1_000_000,
      left: { ready: 0, unacked: 0 },
      deadLettered: 0,
    };
  });

  /** The n-th attempt is the consumer's of that number, at second n. */
  const consumerOf = (attempt: number) => `consumer-${attempt}`;
  const effect = (attempt: number, more: Partial<Effect> = {}) =>
    evidence.ledger.push({
      key: KEY,
      attempt,
      fence: attempt,
      isTakeover: attempt > 1,
      at: attempt * 1_000,
      worker: consumerOf(attempt),
      execution: `execution ${attempt}`,
      ...more,
    });
  const reported = (type: 'completed' | 'replayed' | 'takeover', attempt: number, more = {}) =>
    evidence.events.push({
      type,
      recordKey: RECORD,
      fence: attempt,
      worker: consumerOf(attempt),
      at: attempt * 1_000 + 10,
      ...more,
    });
  const delivery = (attempt: number, more: Partial<WireDelivery> = {}) =>
    evidence.wire.deliveries.push({
      key: KEY,
      copy: '1',
      consumer: consumerOf(attempt),
      isRedelivered: false,
      at: attempt * 1_000 - 10,
      end: 'acked',
      endedAt: attempt * 1_000 + 20,
      ...more,
    });
  const close = (attempt: number, more: Partial<WireClose> = {}) =>
    evidence.wire.closes.push({
      consumer: consumerOf(attempt),
      by: 'none',
      returned: 1,
      at: attempt * 1_000 + 30,
      ...more,
    });
  const handled = (attempt: number) => {
    effect(attempt);
    reported('completed', attempt);
    delivery(attempt);
  };
  const killedAndTakenOver = () => {
    effect(1);
    delivery(1, { end: 'returned' });
    close(1);
    evidence.deaths.set(consumerOf(1), 1_000);
    effect(2);
    reported('takeover', 2);
    reported('completed', 2);
    delivery(2, { isRedelivered: true });
  };
  const objections = () => judgeMessages(evidence).objections;

  it('has nothing to say of a message that was handled once', () => {
    handled(1);
    expect(judgeMessages(evidence)).toMatchObject({
      objections: [],
      figures: { messages: 1, effects: 1, extraEffects: 0, deliveries: 1, redeliveries: 0 },
    });
  });

  it('has nothing to say of one that was taken over from a consumer that was killed', () => {
    killedAndTakenOver();
    expect(judgeMessages(evidence)).toMatchObject({
      objections: [],
      figures: {
        extraEffects: 1,
        reportedAsTakeover: 1,
        redeliveries: 1,
        unacknowledgedAtCloses: 1,
      },
    });
  });

  it('tolerates a consumer that crashed by itself, as planned', () => {
    killedAndTakenOver();
    evidence.deaths.clear();
    expect(objections()).toHaveLength(2);
    const crash = { point: 'after_effect', worker: consumerOf(1), at: 1_000 } as const;
    evidence.events.push({ type: 'lab:crash', ...crash });
    expect(objections()).toEqual([]);
  });

  it('objects to a message without an effect', () => {
    handled(1);
    evidence.published.set('another', 2);
    expect(objections()).toEqual([expect.stringContaining('1 × a message without an effect')]);
  });

  it('objects to a takeover without isTakeover in the handler', () => {
    killedAndTakenOver();
    evidence.ledger[1] = { ...evidence.ledger[1]!, isTakeover: false };
    expect(objections()).toEqual([expect.stringContaining('not reported as a takeover')]);
  });

  it('objects to a message that was taken over from a consumer that lived, and not from one that stood still', () => {
    handled(1);
    effect(2);
    reported('takeover', 2);
    reported('completed', 2);
    delivery(2, { copy: '2' });
    expect(objections()).toEqual([expect.stringContaining('though its consumer lived')]);
    evidence.stoodStill.add(consumerOf(1));
    expect(objections()).toEqual([]);
  });

  it.each([
    ['before its outcome was stored', { at: 1_021 }],
    ['by a consumer that did not know the outcome', { worker: 'consumer-2' }],
    ['for the outcome of another message', { recordKey: recordKeyOf('another') }],
  ])('objects to a message that was acknowledged %s', (_, more) => {
    effect(1);
    delivery(1);
    reported('completed', 1, more);
    expect(objections()).toEqual([expect.stringContaining('without a stored outcome')]);
  });

  it('lets a copy be acknowledged for what another consumer has stored', () => {
    handled(1);
    reported('replayed', 2);
    delivery(2, { copy: '2' });
    expect(objections()).toEqual([]);
  });

  it('objects to a message that its consumer discarded', () => {
    handled(1);
    delivery(2, { copy: '2', end: 'discarded' });
    expect(objections()).toEqual([expect.stringContaining('discarded')]);
  });

  it('objects to more than 1.5 redeliveries for each message that was under way at a close', () => {
    handled(1);
    close(3, { returned: 2 });
    evidence.deaths.set(consumerOf(3), 3_000);
    for (const copy of ['2', '3']) {
      delivery(3, { copy, end: 'returned' });
      delivery(4, { copy, end: 'requeued', isRedelivered: true, endedAt: 5_000 });
    }
    delivery(5, { copy: '2', isRedelivered: true });
    reported('replayed', 5);
    expect(objections()).toEqual([]);
    delivery(5, { copy: '3', isRedelivered: true });
    expect(objections()).toEqual(['4 redeliveries, and 2 messages under way at closes']);
  });

  it('counts undelivered messages and late acknowledgements as unacknowledged', () => {
    effect(1);
    reported('completed', 1);
    delivery(1);
    delivery(2, { isRedelivered: true });
    delivery(2, { isRedelivered: true, copy: '2' });
    reported('replayed', 2);
    expect(judgeMessages(evidence)).toMatchObject({
      objections: [],
      figures: { unacknowledgedAtCloses: 2, acknowledgedTooLate: 1, neverArrived: 1 },
    });
  });

  it('objects to a message that is requeued more than five times in a second', () => {
    handled(1);
    close(3, { returned: 100 });
    evidence.deaths.set(consumerOf(3), 3_000);
    for (let times = 0; times < 5; times += 1) {
      delivery(2, { copy: '2', end: 'requeued', endedAt: 2_000 + times * 199 });
    }
    delivery(2, { copy: '2', end: 'requeued', endedAt: 3_000 });
    delivery(2, { copy: '3', end: 'requeued', endedAt: 2_500 });
    expect(objections()).toEqual([]);
    delivery(2, { copy: '2', end: 'requeued', endedAt: 2_999 });
    expect(objections()).toEqual([expect.stringContaining('more than 5 times in a second')]);
  });

  describe('of a channel that was closed', () => {
    const reasons: [string, Partial<WireClose>][] = [
      ['by its consumer', { by: 'consumer', reason: '200 Goodbye' }],
      ['by the broker, which was provoked', { by: 'broker', reason: FORGED_TAG_REJECTION }],
      ['without a reason', { by: 'none' }],
    ];

    it.each(reasons)('%s, objects to one more than was asked for', (_, how) => {
      handled(1);
      evidence.closesAsked.set(consumerOf(1), 1);
      close(1, how);
      expect(objections()).toEqual([]);
      close(1, how);
      expect(objections()).toEqual([expect.stringContaining('a channel of consumer-1 was closed')]);
    });

    it.each<[string, Partial<WireClose>]>([
      [
        'the broker for a message acknowledged twice',
        { by: 'broker', reason: '406 unknown tag 3' },
      ],
      ['a consumer that lost its thread', { by: 'consumer', reason: '541 INTERNAL_ERROR' }],
    ])('by %s, objects even where a close was asked for', (_, how) => {
      handled(1);
      evidence.closesAsked.set(consumerOf(1), 1);
      close(1, how);
      expect(objections()).toEqual([expect.stringContaining(how.reason!)]);
    });

    it('tolerates the end of all consumers', () => {
      handled(1);
      close(1, { by: 'consumer', reason: '200 Goodbye', at: evidence.endedAt });
      expect(objections()).toEqual([]);
    });
  });

  it.each([
    ['ready', { left: { ready: 1, unacked: 0 } }, '1 messages are left in the queue'],
    ['unacknowledged', { left: { ready: 0, unacked: 2 } }, '2 messages are left in the queue'],
    ['dead-lettered', { deadLettered: 3 }, '3 messages were dead-lettered by the broker'],
    ['a warning', { warnings: ['too many'] }, 'Node warns: too many'],
  ])('objects to what is left: %s', (_, more, objection) => {
    handled(1);
    expect(judgeMessages({ ...evidence, ...more }).objections).toEqual([objection]);
  });
});
