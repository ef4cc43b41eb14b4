import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { ServerClock } from '../../../lib/core/server-clock.js';

const SERVER_NOW = 1_900_000_000_000;

describe('what is known of the store’s clock', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  it('is nothing before the first reply: no limit', () => {
    expect(new ServerClock().notAfter(500)).toBe(0);
  });

  it('goes on with the own monotonic clock', () => {
    const clock = new ServerClock();
    clock.observe(SERVER_NOW);
    expect(clock.notAfter(500)).toBe(SERVER_NOW + 500);
    jest.advanceTimersByTime(1_234);
    expect(clock.notAfter(500)).toBe(SERVER_NOW + 1_234 + 500);
  });

  it('has nothing to do with the wall clock of this process', () => {
    const clock = new ServerClock();
    clock.observe(SERVER_NOW);
    jest.setSystemTime(0);
    expect(clock.notAfter(500)).toBe(SERVER_NOW + 500);
  });

  it.each([
    ['forwards', 3_600_000],
    ['backwards', -3_600_000],
  ])('is what the last reply says, also when the server stepped %s', (_, step) => {
    const clock = new ServerClock();
    clock.observe(SERVER_NOW);
    jest.advanceTimersByTime(10);
    clock.observe(SERVER_NOW + step);
    expect(clock.notAfter(500)).toBe(SERVER_NOW + step + 500);
  });

  it('is told in whole milliseconds', () => {
    const clock = new ServerClock();
    clock.observe(SERVER_NOW);
    jest.advanceTimersByTime(0.7);
    expect(Number.isSafeInteger(clock.notAfter(500))).toBe(true);
  });
});
