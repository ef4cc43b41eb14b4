import { describe, expect, it } from '@jest/globals';
import { ServerClock } from '../../../support/internals/core.js';

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
