import { describe, expect, it } from '@jest/globals';
import { formatDuration } from '../support/internals/swagger.js';

describe('a duration in words', () => {
  it.each([
    [1, '1 millisecond'],
    [1_500, '1500 milliseconds'],
    [1_000, '1 second'],
    [90_000, '90 seconds'],
    [60_000, '1 minute'],
    [5_400_000, '90 minutes'],
    [3_600_000, '1 hour'],
    [86_400_000, '24 hours'],
    [172_800_000, '2 days'],
    [31_536_000_000, '365 days'],
  ])('%d is %s', (milliseconds, words) => {
    expect(formatDuration(milliseconds)).toBe(words);
  });
});
