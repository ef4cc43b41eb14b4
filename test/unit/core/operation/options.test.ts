import { beforeEach, describe, expect, it } from '@jest/globals';
import { keepResponses } from 'nestjs-idempotency';
import {
  finishedRetentionMs,
  LIMITS,
  OUTCOME,
  PROTOCOL,
  unfinishedRetentionMs,
  type OutcomeSummary,
  type ProtocolOptions,
  RECONCILE,
  IdempotencyOptionsError,
  resolve,
} from '../../../support/internals/core.js';
import { BREAKER } from '../../../support/internals/breaker.js';

const DAY_MS = 86_400_000;

const SCHEMA = { ...PROTOCOL, limits: LIMITS, breaker: BREAKER, reconcile: RECONCILE };

type Resolved = Record<string, Record<string, unknown> | false>;

function resolved(given: object): Resolved {
  return resolve(SCHEMA as never, [{ what: 'the test', place: 'module', given }]);
}

function messageOf(given: object): string {
  try {
    resolved(given);
  } catch (error) {
    expect(error).toBeInstanceOf(IdempotencyOptionsError);
    return (error as Error).message;
  }
  throw new Error('nothing was thrown');
}

describe('a number', () => {
  const ranges: [string, string, number, number][] = [
    ['outcome', 'retentionMs', 1, 365 * DAY_MS],
    ['outcome', 'maxBytes', 0, 67_108_864],
    ['duplicates', 'timeoutMs', 1, 3_600_000],
    ['duplicates', 'retryAfterMs', 1, DAY_MS],
    ['lease', 'durationMs', 100, 3_600_000],
    ['lease', 'maxExecutionMs', 100, DAY_MS],
    ['storeErrors', 'commandTimeoutMs', 1, 60_000],
    ['storeErrors', 'saveTimeoutMs', 1, 60_000],
    ['transaction', 'conflictRetries', 0, 10],
    ['limits', 'maxWaiters', 0, 1_000_000],
    ['limits', 'maxWaitersPerKey', 1, 1_000_000],
    ['limits', 'maxWaitersPerCaller', 1, 1_000_000],
    ['limits', 'maxAttemptsPerCaller', 1, 1_000_000],
    ['limits', 'shutdownTimeoutMs', 0, 3_600_000],
    ['breaker', 'errorThresholdPercentage', 1, 99],
    ['breaker', 'volumeThreshold', 1, 1_000_000],
    ['breaker', 'windowMs', 100, 3_600_000],
    ['breaker', 'probeIntervalMs', 10, 3_600_000],
    ['reconcile', 'intervalMs', 100, DAY_MS],
    ['reconcile', 'batchSize', 1, 10_000],
    ['reconcile', 'afterMs', 0, DAY_MS],
  ];

  /** Fields that the deadline's own range depends on. */
  function roomFor(group: string, option: string): object {
    if (group !== 'lease') return {};
    return option === 'durationMs' ? { maxExecutionMs: DAY_MS } : { durationMs: 100 };
  }

  it.each(ranges)('%s.%s may be from %d to %d', (group, option, min, max) => {
    const room = roomFor(group, option);
    for (const value of [min, max]) {
      const { [group]: found } = resolved({ [group]: { ...room, [option]: value } });
      expect(found).toMatchObject({ [option]: value });
    }
  });

  it.each(ranges)(
    '%s.%s below %d or above %d is rejected by its path',
    (group, option, ...range) => {
      const [min, max] = range;
      for (const value of [min - 1, max + 1, min + 0.5, NaN, Infinity, String(min), null]) {
        const message = messageOf({ [group]: { [option]: value } });
        expect(message).toContain(
          `"${group}.${option}" must be an integer from ${min} to ${max}, but it is `,
        );
        expect(message).toContain(typeof value === 'string' ? `"${value}"` : String(value));
      }
    },
  );

  it('lease.maxExecutionMs may not be shorter than the lease', () => {
    const lease = { durationMs: 5_000, maxExecutionMs: 4_999 };
    expect(messageOf({ lease })).toContain('"lease.maxExecutionMs" must be an integer from 5000');
  });
});

it.each([undefined, 'run', 'reject'] as const)(
  "lease.recoverOn: 'always' needs a function as lease.onTakeover, which %p is not",
  (onTakeover) => {
    const lease = { onTakeover, recoverOn: 'always' };
    const text = `"lease.onTakeover" must be a function, because lease.recoverOn is 'always'`;
    expect(messageOf({ lease })).toContain(text);
  },
);

it('lease.recoverOn is "takeover" or "always"', () => {
  const onTakeover = () => 'run';
  for (const recoverOn of ['takeover', 'always']) {
    expect(resolved({ lease: { onTakeover, recoverOn } }).lease).toMatchObject({ recoverOn });
  }
  expect(messageOf({ lease: { onTakeover, recoverOn: 'never' } })).toContain('"lease.recoverOn"');
});

it.each([
  ['duplicates', 'mode', 'reject', 'wait'],
  ['lease', 'onTakeover', 'run', 'reject'],
  ['storeErrors', 'whenUnavailable', 'reject', 'execute'],
  ['storeErrors', 'whenNotSaved', 'respond', 'error'],
])('%s.%s is "%s" or "%s"', (group, option, ...words) => {
  for (const value of words) {
    expect(resolved({ [group]: { [option]: value } })[group]).toMatchObject({ [option]: value });
  }
  for (const value of ['WAIT', '', true, null, 0]) {
    expect(messageOf({ [group]: { [option]: value } })).toContain(
      `"${group}.${option}" must be ${words.map((word) => `"${word}"`).join(', ')}`,
    );
  }
});

it.each(['lease', 'storeErrors', 'limits'])('the group "%s" is always on', (name) => {
  for (const value of [true, false, 1, null]) {
    expect(messageOf({ [name]: value })).toContain(`"${name}" must be an object with settings`);
  }
});

describe.each(['transaction', 'breaker', 'reconcile'])('the group "%s"', (name) => {
  it('is off where it is false or not given', () => {
    expect(resolved({})[name]).toBe(false);
    expect(resolved({ [name]: false })[name]).toBe(false);
  });

  it('is on, with its defaults, where it is true or an object', () => {
    const { [name]: defaults } = resolved({ [name]: true });
    expect(Object.values(defaults as object)).not.toEqual([]);
    expect(resolved({ [name]: {} })[name]).toEqual(defaults);
  });

  it.each(['on', 1, null, [[]], [[1]]])('is not %j', (value) => {
    expect(messageOf({ [name]: value })).toContain(`"${name}" must be true, false or an object`);
  });

  it('rejects names that it does not know, and lists those it knows', () => {
    const message = messageOf({ [name]: { colour: 5 } });
    expect(message).toContain(`"${name}.colour" is not an option of the test. Valid options: `);
    for (const option of Object.keys(resolved({ [name]: true })[name] as object)) {
      expect(message).toContain(`${name}.${option}`);
    }
  });
});

it('the default of outcome.keep states which statuses are not kept', () => {
  const { defaultText = '' } = OUTCOME.fields.keep;
  const [, released = ''] = /4xx but ([^;]*);/.exec(defaultText) ?? [];
  const statuses = Array.from({ length: 100 }, (_, i) => 400 + i);
  expect(released.match(/\d+/g)?.map(Number)).toEqual(
    statuses.filter((status) => !keepResponses({ status })),
  );
});

function optionsWith(outcome: ProtocolOptions['outcome']) {
  return resolve(PROTOCOL, [{ what: 'the test', place: 'call', given: { outcome } }]);
}

describe('the retention', () => {
  const failed: unknown[] = [];
  const observer = { optionFailed: (option: string) => void failed.push(option) };
  beforeEach(() => {
    failed.length = 0;
  });

  it('that is a number applies to every outcome', () => {
    const options = optionsWith({ retentionMs: 5 });
    expect(unfinishedRetentionMs(options)).toBe(5);
    expect(finishedRetentionMs(options, { state: 'failed', error: new Error() }, observer)).toBe(5);
  });

  it('that is a function receives the outcome, and records in progress are kept for a day', () => {
    const seen: OutcomeSummary[] = [];
    const retentionMs = (outcome: OutcomeSummary & { state: string }) => {
      seen.push(outcome);
      return outcome.state === 'failed' ? 60_000 : 120_000;
    };
    const options = optionsWith({ retentionMs });
    expect(unfinishedRetentionMs(options)).toBe(DAY_MS);
    const failure = { state: 'failed', status: 402 } as const;
    expect(finishedRetentionMs(options, failure, observer)).toBe(60_000);
    expect(finishedRetentionMs(options, { state: 'completed' }, observer)).toBe(120_000);
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
    ['returns NaN', () => NaN],
    ['returns a text', () => '604800000' as unknown as number],
    ['returns a promise', () => Promise.reject(new Error()) as unknown as number],
  ])('is the default, which is reported, when the function %s', (_, retentionMs) => {
    const options = optionsWith({ retentionMs });
    expect(finishedRetentionMs(options, { state: 'completed' }, observer)).toBe(DAY_MS);
    expect(failed).toEqual(['outcome.retentionMs']);
  });

  it.each([366 * DAY_MS, Infinity])('is a year when the function returns more: %d', (tooLong) => {
    const options = optionsWith({ retentionMs: () => tooLong });
    expect(finishedRetentionMs(options, { state: 'completed' }, observer)).toBe(365 * DAY_MS);
    expect(failed).toEqual(['outcome.retentionMs']);
  });

  it('is the longest one that the function has returned, when it fails then', () => {
    const results = [2 * DAY_MS, 30 * DAY_MS, 1];
    const options = optionsWith({ retentionMs: () => results.shift()! });
    const ask = () => finishedRetentionMs(options, { state: 'completed' }, observer);
    expect([ask(), ask(), ask(), ask()]).toEqual([2 * DAY_MS, 30 * DAY_MS, 1, 30 * DAY_MS]);
    expect(failed).toEqual(['outcome.retentionMs']);
  });
});
