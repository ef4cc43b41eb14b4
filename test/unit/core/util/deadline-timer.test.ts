import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  DeadlineTimer,
  nodeClock,
  type DeadlineListener,
} from '../../../support/internals/core/util.js';

const DAY_MS = 86_400_000;

describe('the deadline timer', () => {
  let clock: DeadlineTimer;
  let fired: string[];
  let started: number;

  beforeEach(() => {
    // Together with the timers this drives performance.now().
    jest.useFakeTimers();
    clock = new DeadlineTimer(nodeClock);
    fired = [];
    started = performance.now();
  });

  afterEach(() => {
    jest.useRealTimers();
  });

  function set(name: string, inMs: number, fire: () => void = () => undefined): DeadlineListener {
    const listener = {
      dueAt: started + inMs,
      onDeadline: () => {
        fired.push(`${name} at ${String(performance.now() - started)}`);
        fire();
      },
    };
    clock.schedule(listener);
    return listener;
  }

  it('calls deadlines when they are due, whatever the order they were set in', () => {
    set('late', 300);
    set('early', 100);
    set('between', 200);
    jest.advanceTimersByTime(1_000);
    expect(fired).toEqual(['early at 100', 'between at 200', 'late at 300']);
  });

  it('calls those due at once in the order they were set in, and none twice', () => {
    set('one', 100);
    set('two', 100);
    jest.advanceTimersByTime(1_000);
    expect(fired).toEqual(['one at 100', 'two at 100']);
  });

  it('calls no cancelled deadline, even if the one before it cancelled it', () => {
    const off = set('off', 100);
    clock.cancel(off);
    const others: DeadlineListener[] = [];
    set('first', 200, () => {
      for (const other of others) clock.cancel(other);
    });
    others.push(set('second', 200));
    jest.advanceTimersByTime(1_000);
    expect(fired).toEqual(['first at 200']);
  });

  it('lets a callback schedule its deadline again', () => {
    let left = 2;
    const again = {
      dueAt: started + 100,
      onDeadline: () => {
        fired.push(String(performance.now() - started));
        left -= 1;
        again.dueAt += 100;
        if (left > 0) clock.schedule(again);
      },
    };
    clock.schedule(again);
    jest.advanceTimersByTime(1_000);
    expect(fired).toEqual(['100', '200']);
  });

  it('waits for longer than a timer of Node can', () => {
    set('in a month', 30 * DAY_MS);
    jest.advanceTimersByTime(30 * DAY_MS - 1);
    expect(fired).toEqual([]);
    jest.advanceTimersByTime(1);
    expect(fired).toEqual([`in a month at ${String(30 * DAY_MS)}`]);
  });

  it('has one timer for all, and none once all are over', () => {
    for (let i = 0; i < 1_000; i += 1) set(`alarm ${String(i)}`, 100 + i);
    expect(jest.getTimerCount()).toBe(1);
    jest.advanceTimersByTime(2_000);
    expect(fired).toHaveLength(1_000);
    expect(jest.getTimerCount()).toBe(0);
  });

  it('checks many deadlines less often, and calls none of them early', () => {
    const deadlines = 20_000;
    for (let i = 0; i < deadlines; i += 1) set('', 100 + i / 1_000);
    const wake = jest.spyOn(clock, 'wake');
    jest.advanceTimersByTime(1_000);
    expect(fired).toHaveLength(deadlines);
    expect(wake.mock.calls.length).toBeLessThan(10);
    for (const [i, entry] of fired.entries()) {
      expect(Number(entry.slice(4))).toBeGreaterThanOrEqual(100 + i / 1_000);
    }
  });

  it('does not keep the process alive', () => {
    jest.useRealTimers();
    const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout');
    const before = timers().length;
    const listener = { dueAt: performance.now() + 60_000, onDeadline: () => undefined };
    clock.schedule(listener);
    expect(timers()).toHaveLength(before);
    clock.cancel(listener);
  });
});
