import { describe, expect, it } from '@jest/globals';
import { IdempotencyEvents, type IdempotencyEvent } from 'nestjs-idempotency';
import { EVENT_SEVERITY } from '../../../support/internals/core.js';

const subject = { operation: 'pay', recordKey: 'digest', attempt: 1, fencingToken: 7 };
const critical = { type: 'record_lost', ...subject } as IdempotencyEvent;
const ordinary = { type: 'acquired', ...subject } as IdempotencyEvent;

/** Events with a reporter that records. */
function reported() {
  const events = new IdempotencyEvents();
  const logged: IdempotencyEvent[] = [];
  const failures: unknown[] = [];
  events.reportTo({
    report: (event) => void logged.push(event),
    subscriberFailed: (event, error) => void failures.push([event, error]),
  });
  return { events, logged, failures };
}

describe('subscribers', () => {
  it('are notified of every event, in the order of their subscription', () => {
    const { events } = reported();
    const received: string[] = [];
    events.subscribe(({ type }) => void received.push(`first: ${type}`));
    events.subscribe(({ type }) => void received.push(`second: ${type}`));
    events.emit(ordinary);
    events.emit(critical);
    expect(received).toEqual([
      'first: acquired',
      'second: acquired',
      'first: record_lost',
      'second: record_lost',
    ]);
  });

  it('are not notified after they unsubscribe, and may unsubscribe twice', () => {
    const { events } = reported();
    const received: IdempotencyEvent[] = [];
    const leave = events.subscribe((event) => void received.push(event));
    events.emit(ordinary);
    leave();
    leave();
    events.emit(ordinary);
    expect(received).toEqual([ordinary]);
  });

  it('may unsubscribe while being notified', () => {
    const { events } = reported();
    const received: string[] = [];
    const leave = events.subscribe(() => {
      received.push('once');
      leave();
    });
    events.subscribe(() => void received.push('always'));
    events.emit(ordinary);
    events.emit(ordinary);
    expect(received).toEqual(['once', 'always', 'always']);
  });

  it('that fail are reported, and stop neither the event nor the others', () => {
    const { events, failures } = reported();
    const received: IdempotencyEvent[] = [];
    const bug = new Error('a subscriber’s bug');
    events.subscribe(() => {
      throw bug;
    });
    events.subscribe((event) => void received.push(event));
    expect(() => events.emit(ordinary)).not.toThrow();
    expect(received).toEqual([ordinary]);
    expect(failures).toEqual([[ordinary, bug]]);
  });

  it('that are asynchronous and fail are reported too, and do not end the process', async () => {
    const { events, failures } = reported();
    const bug = new Error('a subscriber’s bug');
    let rejected: Promise<void> | undefined;
    // As a subscriber would write it: an async function is allowed where nothing is awaited.
    events.subscribe(() => {
      rejected = Promise.reject(bug);
      return rejected;
    });
    events.emit(ordinary);
    // The test's own handler: without one, Node ends the process.
    await rejected?.catch(() => undefined);
    expect(failures).toEqual([[ordinary, bug]]);
  });

  it('that fail without a reporter affect nothing else', () => {
    const events = new IdempotencyEvents();
    events.subscribe(() => {
      throw new Error('a subscriber’s bug');
    });
    expect(() => events.emit(critical)).not.toThrow();
  });
});

describe('the log', () => {
  it('has every warning and critical event, and no other', () => {
    const { events, logged } = reported();
    events.subscribe(() => undefined);
    for (const type of Object.keys(EVENT_SEVERITY)) {
      events.emit({ ...critical, type, reason: 'store_unavailable' } as IdempotencyEvent);
    }
    const severities = new Set(logged.map(({ type }) => EVENT_SEVERITY[type]));
    expect(severities).toEqual(new Set(['warning', 'critical']));
    const others = Object.values(EVENT_SEVERITY).filter((severity) => !severities.has(severity));
    expect(logged.length + others.length).toBe(Object.keys(EVENT_SEVERITY).length);
  });

  it('leaves critical events to a subscriber that replaces it, as long as it is subscribed', () => {
    const { events, logged } = reported();
    const leave = events.subscribe(() => undefined, { replacesLog: true });
    events.emit(critical);
    expect(logged).toEqual([]);
    leave();
    events.emit(critical);
    expect(logged).toEqual([critical]);
  });

  it('has the failures of a subscriber that replaces it', () => {
    const { events, failures } = reported();
    const bug = new Error('a subscriber’s bug');
    const subscriber = () => {
      throw bug;
    };
    events.subscribe(subscriber, { replacesLog: true });
    events.emit(critical);
    expect(failures).toEqual([[critical, bug]]);
  });
});
