import { beforeEach, describe, expect, it } from '@jest/globals';
import {
  type IdempotencyEvent,
  IdempotencyEvents,
  type IdempotencyStore,
  keepResponses,
  keepSuccesses,
} from 'nestjs-idempotency';
import { DelegatingStore } from 'nestjs-idempotency/store';
import { BREAKER } from '../../../support/internals/breaker.js';
import {
  asksToKeep,
  EVENT_SEVERITY,
  finishedRetentionMs,
  type Group,
  IdempotencyOptionsError,
  LIMITS,
  originOf,
  OUTCOME,
  type OutcomeSummary,
  parseOrigin,
  pathsIn,
  PROTOCOL,
  type ProtocolOptions,
  RECONCILE,
  resolve,
  type Schema,
  unfinishedRetentionMs,
} from '../../../support/internals/core.js';

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

describe('options', () => {
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
    const ranges: [string, string, number, number, durations: string][] = [
      ['outcome', 'retention', 1, 365 * DAY_MS, "'1ms' to '365d'"],
      ['outcome', 'maxBytes', 0, 67_108_864, ''],
      ['duplicates', 'timeout', 1, 3_600_000, "'1ms' to '1h'"],
      ['duplicates', 'retryAfter', 1, DAY_MS, "'1ms' to '24h'"],
      ['lease', 'duration', 100, 3_600_000, "'100ms' to '1h'"],
      ['lease', 'maxExecution', 100, DAY_MS, "'100ms' to '24h'"],
      ['storeErrors', 'commandTimeout', 1, 60_000, "'1ms' to '1m'"],
      ['storeErrors', 'saveTimeout', 1, 60_000, "'1ms' to '1m'"],
      ['transaction', 'conflictRetries', 0, 10, ''],
      ['limits', 'maxWaiters', 0, 1_000_000, ''],
      ['limits', 'maxWaitersPerKey', 1, 1_000_000, ''],
      ['limits', 'maxWaitersPerCaller', 1, 1_000_000, ''],
      ['limits', 'maxAttemptsPerCaller', 1, 1_000_000, ''],
      ['limits', 'maxUploads', 1, 1_000_000, ''],
      ['limits', 'shutdownTimeout', 0, 3_600_000, "'0ms' to '1h'"],
      ['breaker', 'errorThresholdPercentage', 1, 99, ''],
      ['breaker', 'volumeThreshold', 1, 1_000_000, ''],
      ['breaker', 'window', 100, 3_600_000, "'100ms' to '1h'"],
      ['breaker', 'probeInterval', 10, 3_600_000, "'10ms' to '1h'"],
      ['reconcile', 'interval', 100, DAY_MS, "'100ms' to '24h'"],
      ['reconcile', 'batchSize', 1, 10_000, ''],
      ['reconcile', 'after', 0, DAY_MS, "'0ms' to '24h'"],
    ];

    /** Fields that the deadline's own range depends on. */
    function roomFor(group: string, option: string): object {
      if (group !== 'lease') return {};
      return option === 'duration' ? { maxExecution: DAY_MS } : { duration: 100 };
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
      (group, option, min, max, durations) => {
        const kind =
          durations === '' ? `an integer from ${min} to ${max}` : `a duration from ${durations}`;
        for (const value of [min - 1, max + 1, min + 0.5, NaN, Infinity, String(min), null]) {
          const message = messageOf({ [group]: { [option]: value } });
          expect(message).toContain(`"${group}.${option}" must be ${kind}`);
          const given = typeof value === 'string' ? `"${value}"` : String(value);
          expect(message).toContain(`, but it is ${given}.`);
        }
      },
    );

    it('lease.maxExecution may not be shorter than the lease', () => {
      const lease = { duration: 5_000, maxExecution: 4_999 };
      expect(messageOf({ lease })).toMatch(
        /"lease\.maxExecution" must be at least "lease\.duration", which is 5000 ms: .* it is "4999 ms"\.$/,
      );
      expect(messageOf({ lease: { duration: 400_000 } })).toContain('it is "300000 ms"');
    });

    it('a word that is none of those allowed is answered by all of them', () => {
      const duplicates = { mode: 'skip' } as object;
      expect(messageOf({ duplicates })).toContain('must be "reject" or "wait", but it is "skip"');
      const lease = { onTakeover: 'stop' } as object;
      expect(messageOf({ lease })).toContain('must be "run", "reject" or a function, but it');
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
      // A third choice is a function.
      const all = words.map((word) => `"${word}"`).join('(?:,| or) ');
      expect(messageOf({ [group]: { [option]: value } })).toMatch(
        new RegExp(`"${group}.${option}" must be ${all}`),
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
      const options = optionsWith({ retention: 5 });
      expect(unfinishedRetentionMs(options)).toBe(5);
      expect(finishedRetentionMs(options, { state: 'failed', error: new Error() }, observer)).toBe(
        5,
      );
    });

    it('that is a function receives the outcome, and records in progress are kept for a day', () => {
      const seen: OutcomeSummary[] = [];
      const retentionMs = (outcome: OutcomeSummary & { state: string }) => {
        seen.push(outcome);
        return outcome.state === 'failed' ? 60_000 : 120_000;
      };
      const options = optionsWith({ retention: retentionMs });
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
      const options = optionsWith({ retention: retentionMs });
      expect(finishedRetentionMs(options, { state: 'completed' }, observer)).toBe(DAY_MS);
      expect(failed).toEqual(['outcome.retention']);
    });

    it.each([366 * DAY_MS, Infinity])('is a year when the function returns more: %d', (tooLong) => {
      const options = optionsWith({ retention: () => tooLong });
      expect(finishedRetentionMs(options, { state: 'completed' }, observer)).toBe(365 * DAY_MS);
      expect(failed).toEqual(['outcome.retention']);
    });

    it('is the longest one that the function has returned, when it fails then', () => {
      const results = [2 * DAY_MS, 30 * DAY_MS, 1];
      const options = optionsWith({ retention: () => results.shift()! });
      const ask = () => finishedRetentionMs(options, { state: 'completed' }, observer);
      expect([ask(), ask(), ask(), ask()]).toEqual([2 * DAY_MS, 30 * DAY_MS, 1, 30 * DAY_MS]);
      expect(failed).toEqual(['outcome.retention']);
    });
  });
});

const word = (text: string) => Buffer.from(text).toString('base64url');

describe('The origin of a record', () => {
  it.each([
    { operation: 'pay', scope: ['acme', 7], key: 'k' },
    { operation: 'pay', scope: [7n, -1n, 0n, 10n ** 30n, '7', 7], key: 'k' },
    { operation: 'Ü.€', scope: [], key: 'with "quotes", spaces\nand 😀' },
  ])('is one word with operation, scope and key: case %#', (origin) => {
    const text = originOf(origin);
    expect(text).toMatch(/^[\w-]+$/);
    expect(parseOrigin(text)).toEqual(origin);
    const ofService = originOf(origin, 'billing');
    expect(ofService).toMatch(/^[\w-]+$/);
    expect(parseOrigin(ofService)).toEqual({ ...origin, service: 'billing' });
  });

  it.each([
    ['no JSON', 'not json'],
    ['no list', '{}'],
    ['null', 'null'],
    ['too short', '["pay",["alice"]]'],
    ['no operation', '[1,["alice"],"k"]'],
    ['no key', '["pay",["alice"],null]'],
    ['no name of a service', '["pay",["alice"],"k",7]'],
    ['no scope', '["pay","alice","k"]'],
    ['no part of a scope', '["pay",[null],"k"]'],
    ['no bigint', '["pay",[{"bigint":"0x7"}],"k"]'],
    ['no canonical bigint', '["pay",[{"bigint":"-0"}],"k"]'],
  ])('is undefined where another program wrote it: %s', (_, text) => {
    expect(parseOrigin(word(text))).toBeUndefined();
  });
});

describe('the policy of HTTP', () => {
  it('keeps every response to this request, except those that ask for a retry', () => {
    const statuses = Array.from({ length: 500 }, (_, index) => index + 100);
    const released = statuses.filter((status) => !keepResponses({ status }));
    const from500 = statuses.filter((status) => status >= 500);
    expect(released).toEqual([401, 403, 408, 412, 425, 429, ...from500]);
  });

  it('does not depend on whether a response was returned or thrown', () => {
    expect(keepResponses({ status: 404, error: new Error('not found') })).toBe(true);
    expect(keepResponses({ status: 503, error: new Error('down') })).toBe(false);
  });
});

describe('the policy of calls', () => {
  it('keeps what returned, and releases what threw', () => {
    expect(keepSuccesses({})).toBe(true);
    expect(keepSuccesses({ error: new Error('failed') })).toBe(false);
  });
});

describe('a custom policy', () => {
  const failed: unknown[][] = [];
  const observer = { optionFailed: (...args: unknown[]) => void failed.push(args) };
  beforeEach(() => {
    failed.length = 0;
  });

  it('decides', () => {
    expect(asksToKeep(() => true, { status: 500 }, observer)).toBe(true);
    expect(asksToKeep(() => false, { status: 200 }, observer)).toBe(false);
    expect(failed).toEqual([]);
  });

  it.each([201, 500])('that throws keeps the outcome, and is reported: %d', (status) => {
    const bug = new Error('a bug');
    const policy = () => {
      throw bug;
    };
    expect(asksToKeep(policy, { status }, observer)).toBe(true);
    expect(failed).toEqual([['outcome.keep', bug]]);
  });

  it.each([
    [undefined, 'undefined'],
    [null, 'null'],
    [0, 'a number'],
    ['', 'a string'],
    [Promise.resolve(false), 'a Promise'],
    [Promise.reject(new Error('not awaited')), 'a Promise'],
    [new Boolean(false), 'a Boolean'],
  ])('that returns %p keeps the outcome, and is reported by the type', (result, type) => {
    expect(asksToKeep((() => result) as never, { status: 500 }, observer)).toBe(true);
    const message = expect.stringMatching(
      `^The function .* "outcome.keep" must .* returned ${type}\\.$`,
    );
    expect(failed).toMatchObject([['outcome.keep', { message }]]);
  });
});

describe('option schema', () => {
  interface Planted {
    readonly size?: number;
  }

  interface Options {
    readonly planted?: Planted;
  }

  interface Resolved {
    readonly planted: Required<Planted>;
  }

  const check = () => undefined;

  it('a field without a check, without a default or for nothing does not compile', () => {
    const complete: Group<Planted, Required<Planted>> = { fields: { size: { default: 1, check } } };
    const schema: Schema<Options, Resolved> = { planted: complete };
    expect(resolve(schema, [])).toEqual({ planted: { size: 1 } });

    // @ts-expect-error -- no check
    const unchecked: typeof complete = { fields: { size: { default: 1 } } };
    // @ts-expect-error -- no default, and the resolved option always has a value
    const absent: typeof complete = { fields: { size: { check } } };
    // @ts-expect-error -- a default of another type
    const other: typeof complete = { fields: { size: { default: 'one', check } } };
    // @ts-expect-error -- no field for the option
    const empty: typeof complete = { fields: {} };
    // @ts-expect-error -- no option for the field
    const more: typeof complete = { fields: { ...complete.fields, weight: { default: 1, check } } };
    // @ts-expect-error -- no default, and none described
    const optional: Group<Planted, Planted> = { fields: { size: { check } } };
    // @ts-expect-error -- no group for the options
    const nothing: typeof schema = {};
    const given = { planted: { size: 2 } };
    const wrong = [unchecked, absent, other, empty, more, optional].map((group) => ({
      planted: group as typeof complete,
    }));
    for (const each of [...wrong, nothing]) {
      const isRight = () =>
        expect([
          resolve(each, [{ what: 'the test', place: 'call', given }]),
          resolve(each, []),
          Object.keys(resolve(each, []).planted),
        ]).toEqual([given, { planted: { size: 1 } }, ['size']]);
      expect(isRight).toThrow();
    }
  });

  it('each value is checked once where it is given, also one that another level overrides', () => {
    const seen: unknown[] = [];
    const counted: Schema<Options, Resolved> = {
      planted: {
        fields: { size: { default: 0, check: (option, value) => void seen.push([option, value]) } },
      },
    };
    const levels = [1, 2, undefined].map((size) => ({
      what: 'the test',
      place: 'class' as const,
      given: { planted: { size } },
    }));
    expect(resolve(counted, levels)).toEqual({ planted: { size: 2 } });
    expect(seen).toEqual([
      ['planted.size', 1],
      ['planted.size', 2],
    ]);
  });

  describe('a group in a group', () => {
    interface Tree extends Planted {
      readonly fence?: boolean | { readonly height?: number; readonly paint?: string };
    }

    interface Trees {
      readonly tree?: Tree;
    }

    const field = (byDefault: number) => ({ default: byDefault, check });
    const trees: Schema<
      Trees,
      { tree: { size: number; fence: false | { height: number; paint: string } } }
    > = {
      tree: {
        fields: {
          size: { ...field(1), places: ['module'] },
          fence: {
            fields: { height: field(2), paint: { default: 'green', check } },
            isSwitched: true,
          },
        },
      },
    };
    const at = (place: 'module' | 'method', tree: object) => ({
      what: `the ${place}`,
      place,
      given: { tree },
    });

    it('is switched by itself, and merges field by field', () => {
      const inBlue = at('module', { size: 3, fence: { paint: 'blue' } });
      expect(resolve(trees, [])).toEqual({ tree: { size: 1, fence: false } });
      expect(resolve(trees, [inBlue, at('method', { fence: { height: 4 } })])).toEqual({
        tree: { size: 3, fence: { height: 4, paint: 'blue' } },
      });
      const off = [inBlue, at('method', { fence: false })];
      expect(resolve(trees, off)).toEqual({ tree: { size: 3, fence: false } });
      expect(resolve(trees, [...off, at('method', { fence: true })])).toEqual({
        tree: { size: 3, fence: { height: 2, paint: 'blue' } },
      });
    });

    it('is named by its path', () => {
      const wrong = () => resolve(trees, [at('method', { fence: 'high' })]);
      expect(wrong).toThrow('"tree.fence" must be true, false or an object with settings');
      const unknown = () => resolve(trees, [at('method', { fence: { colour: 'blue' } })]);
      expect(unknown).toThrow(
        '"tree.fence.colour" is not an option of the method. Valid options: tree.fence.height, tree.fence.paint.',
      );
    });

    it('a field is refused where its group may stand and the field may not', () => {
      expect(pathsIn(trees, 'method')).toEqual([
        ...['tree', 'tree.fence', 'tree.fence.height', 'tree.fence.paint'],
      ]);
      expect(pathsIn(trees, 'module')).toContain('tree.size');
      const misplaced = () => resolve(trees, [at('method', { size: 3 })]);
      expect(misplaced).toThrow('"tree.size" is not an option of the method.');
      expect(resolve(trees, [at('module', { size: 3 })]).tree.size).toBe(3);
    });
  });
});

type Property =
  'system' | 'isShared' | 'breaker' | 'deletedRecords' | 'missedEntries' | 'transactional';
type Method = Exclude<keyof IdempotencyStore, Property>;

/** The number of arguments of every method of the port. */
const METHODS: Readonly<Record<Method, number>> = {
  open: 1,
  begin: 1,
  extend: 2,
  complete: 2,
  release: 2,
  inspect: 2,
  watch: 3,
  abandoned: 1,
  list: 1,
  amend: 1,
  diagnose: 0,
  close: 1,
};

describe('DelegatingStore', () => {
  it.each(Object.entries(METHODS))('passes %s on, and returns its result', (method, count) => {
    const args = ['first', 'second', 'third'].slice(0, count);
    const result = Promise.resolve();
    const calls: unknown[][] = [];
    const wrapped = {
      [method]: (...received: unknown[]) => {
        calls.push(received);
        return result;
      },
    };
    const store = new DelegatingStore(wrapped as never);
    expect(Reflect.get(store, method).apply(store, args)).toBe(result);
    expect(calls).toEqual([args]);
  });

  it.each<Pick<IdempotencyStore, Property>>([
    {
      ...{ system: 'etcd', isShared: true, breaker: 'open', deletedRecords: 7, missedEntries: 2 },
      transactional: {} as never,
    },
    {
      ...{
        system: 'x',
        isShared: false,
        breaker: undefined,
        deletedRecords: undefined,
        missedEntries: undefined,
      },
      transactional: undefined,
    },
  ])('has the properties of the wrapped store', (wrapped) => {
    const { system, isShared, breaker, deletedRecords, missedEntries, transactional } =
      new DelegatingStore(wrapped as never);
    expect({ system, isShared, breaker, deletedRecords, missedEntries, transactional }).toEqual(
      wrapped,
    );
  });
});
