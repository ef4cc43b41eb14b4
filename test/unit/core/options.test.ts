import { describe, expect, it } from '@jest/globals';
import {
  checkEngineOptions,
  checkProtocolOptions,
  ENGINE_DEFAULTS,
  finishedRetentionMs,
  PROTOCOL_DEFAULTS,
  unfinishedRetentionMs,
  type OutcomeSummary,
} from '../../support/internals/core/operation.js';
import { IdempotencyOptionsError } from '../../support/internals/core/util.js';

const DAY_MS = 86_400_000;

function messageOf(check: () => void): string {
  try {
    check();
  } catch (error) {
    expect(error).toBeInstanceOf(IdempotencyOptionsError);
    return (error as Error).message;
  }
  throw new Error('nothing was thrown');
}

describe('an option of the protocol', () => {
  const ranges: [string, number, number][] = [
    ['leaseMs', 100, 300_000],
    ['maxExecutionMs', 10_000, DAY_MS],
    ['retentionMs', 1, 365 * DAY_MS],
    ['waitTimeoutMs', 1, 3_600_000],
    ['retryAfterMs', 1, DAY_MS],
    ['commandTimeoutMs', 1, 60_000],
    ['saveTimeoutMs', 1, 60_000],
  ];

  it.each(ranges)('%s may be from %d to %d', (option, min, max) => {
    for (const value of [min, max]) {
      expect(() => checkProtocolOptions({ ...PROTOCOL_DEFAULTS, [option]: value })).not.toThrow();
    }
  });

  it.each(ranges)('%s below %d or above %d is rejected by name', (option, min, max) => {
    // The maximum of a lease is an hour where the deadline allows it.
    const room = option === 'leaseMs' ? { lease: { maxExecutionMs: DAY_MS } } : {};
    const highest = option === 'leaseMs' ? 3_600_000 : max;
    for (const value of [min - 1, highest + 1, min + 0.5, NaN, Infinity, String(min), null]) {
      const options = { ...PROTOCOL_DEFAULTS, ...room, [option]: value };
      const message = messageOf(() => checkProtocolOptions(options));
      expect(message).toContain(`"${option}"`);
      expect(message).toContain(`from ${min} to ${highest}`);
      expect(message).toContain(typeof value === 'string' ? `"${value}"` : String(value));
    }
  });

  it('maxExecutionMs may not be shorter than the lease', () => {
    const options = { ...PROTOCOL_DEFAULTS, lease: { durationMs: 5_000, maxExecutionMs: 4_999 } };
    expect(messageOf(() => checkProtocolOptions(options))).toContain('from 5000 to 86400000');
  });

  it.each([
    ['whenInProgress', 'reject', 'wait'],
    ['onTakeover', 'run', 'reject'],
    ['onStoreUnavailable', 'reject', 'execute'],
    ['onSaveFailure', 'respond', 'error'],
  ])('%s is "%s" or "%s"', (option, ...words) => {
    for (const value of words) {
      expect(() => checkProtocolOptions({ ...PROTOCOL_DEFAULTS, [option]: value })).not.toThrow();
    }
    for (const value of ['WAIT', '', true, null, 0]) {
      const message = messageOf(() =>
        checkProtocolOptions({ ...PROTOCOL_DEFAULTS, [option]: value }),
      );
      expect(message).toContain(
        `"${option}" must be ${words.map((word) => `"${word}"`).join(', ')}`,
      );
    }
  });

  it('has a valid default', () => {
    expect(() => checkProtocolOptions(PROTOCOL_DEFAULTS)).not.toThrow();
    expect(Object.isFrozen(PROTOCOL_DEFAULTS)).toBe(true);
  });
});

describe('an option of the engine', () => {
  it.each([
    ['maxWaiters', 0, 1_000_000],
    ['shutdownTimeoutMs', 0, 3_600_000],
  ])('%s is from %d to %d', (option, min, max) => {
    for (const value of [min, max]) {
      expect(() => checkEngineOptions({ ...ENGINE_DEFAULTS, [option]: value })).not.toThrow();
    }
    for (const value of [min - 1, max + 1, 0.5, '1']) {
      const message = messageOf(() =>
        checkEngineOptions({ ...ENGINE_DEFAULTS, [option]: value as number }),
      );
      expect(message).toContain(`"${option}" must be an integer from ${min} to ${max}`);
    }
  });

  it('has a valid default', () => {
    expect(() => checkEngineOptions(ENGINE_DEFAULTS)).not.toThrow();
    expect(Object.isFrozen(ENGINE_DEFAULTS)).toBe(true);
  });
});

describe('the retention', () => {
  it('that is a number applies to every outcome', () => {
    const options = { ...PROTOCOL_DEFAULTS, outcome: { retentionMs: 5 } };
    expect(unfinishedRetentionMs(options)).toBe(5);
    expect(finishedRetentionMs(options, { state: 'failed', error: new Error() })).toBe(5);
  });

  it('that is a function receives the outcome, and records in progress are kept for a day', () => {
    const seen: OutcomeSummary[] = [];
    const retentionMs = (outcome: OutcomeSummary & { state: string }) => {
      seen.push(outcome);
      return outcome.state === 'failed' ? 60_000 : 120_000;
    };
    const options = { ...PROTOCOL_DEFAULTS, outcome: { retentionMs } };
    expect(unfinishedRetentionMs(options)).toBe(DAY_MS);
    const failure = { state: 'failed', status: 402 } as const;
    expect(finishedRetentionMs(options, failure)).toBe(60_000);
    expect(finishedRetentionMs(options, { state: 'completed' })).toBe(120_000);
    expect(seen).toEqual([failure, { state: 'completed' }]);
  });

  it.each<[string, () => number]>([
    [
      'throws',
      () => {
        throw new Error('a bug');
      },
    ],
    ['returns nothing', () => undefined as unknown as number],
    ['returns 0', () => 0],
    ['returns a fraction', () => 1.5],
    ['returns more than a year', () => 366 * DAY_MS],
  ])('does not lose the outcome when the function %s', (_, retentionMs) => {
    const options = { ...PROTOCOL_DEFAULTS, outcome: { retentionMs } };
    expect(finishedRetentionMs(options, { state: 'completed' })).toBe(DAY_MS);
  });
});
