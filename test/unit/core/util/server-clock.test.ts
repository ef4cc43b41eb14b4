import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { ServerClock } from '../../../support/internals/core/util.js';

const SERVER_NOW = 1_900_000_000_000;

describe('the last known time of the store’s clock', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  it('is undefined before the first reply: no limit', () => {
    expect(new ServerClock().notAfter(500)).toBe(0);
  });

  it('advances with the local monotonic clock', () => {
    const clock = new ServerClock();
    clock.observe(SERVER_NOW);
    expect(clock.notAfter(500)).toBe(SERVER_NOW + 500);
    jest.advanceTimersByTime(1_234);
    expect(clock.notAfter(500)).toBe(SERVER_NOW + 1_234 + 500);
  });

  it('does not depend on the wall clock of this process', () => {
    const clock = new ServerClock();
    clock.observe(SERVER_NOW);
    jest.setSystemTime(0);
    expect(clock.notAfter(500)).toBe(SERVER_NOW + 500);
  });

  it.each([
    ['forwards', 3_600_000],
    ['backwards', -3_600_000],
  ])('is that of the last reply, also when the server stepped %s', (_, step) => {
    const clock = new ServerClock();
    clock.observe(SERVER_NOW);
    jest.advanceTimersByTime(10);
    clock.observe(SERVER_NOW + step);
    expect(clock.notAfter(500)).toBe(SERVER_NOW + step + 500);
  });

  it('is in whole milliseconds', () => {
    const clock = new ServerClock();
    clock.observe(SERVER_NOW);
    jest.advanceTimersByTime(0.7);
    expect(Number.isSafeInteger(clock.notAfter(500))).toBe(true);
  });
});
