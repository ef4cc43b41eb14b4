import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  DeadlineTimer,
  nodeClock,
  type DeadlineListener,
  jitteredPause,
  ServerClock,
} from '../../../support/internals/core.js';
import { StandingClock } from '../../../support/clocks/standing-clock.js';

const DAY_MS = 86_400_000;

describe('the deadline timer', () => {
  let clock: StandingClock;
  let deadlines: DeadlineTimer;
  let fired: string[];
  let started: number;

  beforeEach(() => {
    clock = new StandingClock();
    deadlines = new DeadlineTimer(clock);
    fired = [];
    started = clock.now();
  });

  function set(name: string, inMs: number, fire: () => void = () => undefined): DeadlineListener {
    const listener = {
      dueAt: started + inMs,
      onDeadline: () => {
        fired.push(`${name} at ${String(clock.now() - started)}`);
        fire();
      },
    };
    deadlines.schedule(listener);
    return listener;
  }

  it('calls deadlines when they are due, whatever the order they were set in', async () => {
    set('late', 300);
    set('early', 100);
    set('between', 200);
    await clock.advance(1_000);
    expect(fired).toEqual(['early at 100', 'between at 200', 'late at 300']);
  });

  it('calls those due at once in the order they were set in, and none twice', async () => {
    set('one', 100);
    set('two', 100);
    await clock.advance(1_000);
    expect(fired).toEqual(['one at 100', 'two at 100']);
  });

  it('calls no cancelled deadline, even if the one before it cancelled it', async () => {
    const off = set('off', 100);
    deadlines.cancel(off);
    const others: DeadlineListener[] = [];
    set('first', 200, () => {
      for (const other of others) deadlines.cancel(other);
    });
    others.push(set('second', 200));
    await clock.advance(1_000);
    expect(fired).toEqual(['first at 200']);
  });

  it('lets a callback schedule its deadline again', async () => {
    let left = 2;
    const again = {
      dueAt: started + 100,
      onDeadline: () => {
        fired.push(String(clock.now() - started));
        left -= 1;
        again.dueAt += 100;
        if (left > 0) deadlines.schedule(again);
      },
    };
    deadlines.schedule(again);
    await clock.advance(1_000);
    expect(fired).toEqual(['100', '200']);
  });

  it('waits for longer than a timer of Node can', async () => {
    set('in a month', 30 * DAY_MS);
    await clock.advance(30 * DAY_MS - 1);
    expect(fired).toEqual([]);
    await clock.advance(1);
    expect(fired).toEqual([`in a month at ${String(30 * DAY_MS)}`]);
  });

  it('has one timer for all, and none once all are over', async () => {
    for (let i = 0; i < 1_000; i += 1) set(`alarm ${String(i)}`, 100 + i);
    expect(clock.timerCount).toBe(1);
    await clock.advance(2_000);
    expect(fired).toHaveLength(1_000);
    expect(clock.timerCount).toBe(0);
  });

  it('checks many deadlines less often, and calls none of them early', async () => {
    const count = 20_000;
    for (let i = 0; i < count; i += 1) set('', 100 + i / 1_000);
    const wake = jest.spyOn(deadlines, 'wake');
    await clock.advance(1_000);
    expect(fired).toHaveLength(count);
    expect(wake.mock.calls.length).toBeLessThan(10);
    for (const [i, entry] of fired.entries()) {
      expect(Number(entry.slice(4))).toBeGreaterThanOrEqual(100 + i / 1_000);
    }
  });

  it('does not keep the process alive', () => {
    const real = new DeadlineTimer(nodeClock);
    const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout');
    const before = timers().length;
    const listener = { dueAt: nodeClock.now() + 60_000, onDeadline: () => undefined };
    real.schedule(listener);
    expect(timers()).toHaveLength(before);
    real.cancel(listener);
  });
});

describe('a jittered pause', () => {
  it('takes between half of its time and all of it, at random', async () => {
    const clock = new StandingClock();
    const startedAt = clock.now();
    const lengths: number[] = [];
    const pauses = Array.from({ length: 200 }, () =>
      jitteredPause(1_000, clock).then(() => lengths.push(clock.now() - startedAt)),
    );
    await clock.advance(499);
    expect(lengths).toEqual([]);
    await clock.advance(501);
    await Promise.all(pauses);
    const inThirds = lengths.map((length) => Math.min(2, Math.floor((length - 500) / 167)));
    expect(new Set(inThirds)).toEqual(new Set([0, 1, 2]));
  });
});

const SERVER_NOW = 1_900_000_000_000;
const NOW = 5_000;

describe('the last known time of the store’s clock', () => {
  it('is undefined before the first reply: no limit', () => {
    expect(new ServerClock().notAfter(500, NOW)).toBe(0);
  });

  it('advances with the local monotonic clock', () => {
    const clock = new ServerClock();
    clock.observe(SERVER_NOW, NOW);
    expect(clock.notAfter(500, NOW)).toBe(SERVER_NOW + 500);
    expect(clock.notAfter(500, NOW + 1_234)).toBe(SERVER_NOW + 1_234 + 500);
  });

  it.each([
    ['forwards', 3_600_000],
    ['backwards', -3_600_000],
  ])('is that of the last reply, also when the server stepped %s', (_, step) => {
    const clock = new ServerClock();
    clock.observe(SERVER_NOW, NOW);
    clock.observe(SERVER_NOW + step, NOW + 10);
    expect(clock.notAfter(500, NOW + 10)).toBe(SERVER_NOW + step + 500);
  });

  it('is in whole milliseconds', () => {
    const clock = new ServerClock();
    clock.observe(SERVER_NOW, NOW);
    expect(Number.isSafeInteger(clock.notAfter(500, NOW + 0.7))).toBe(true);
  });
});
