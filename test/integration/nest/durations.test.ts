import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  IdempotencyOptionsError,
  type IdempotencyModuleOptions,
  type IdempotencyOptions,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { OPTIONS, handlerLevel, resolveOptions } from '../../support/internals/nest.js';
import { checkRandomly } from '../../support/jest/random-runs.js';

const store = memoryStore();

/** That both forms compile in each place is a part of the test. */
const OF_OPERATIONS = {
  text: {
    outcome: { retention: '48h' },
    duplicates: { timeout: '45s', retryAfter: '2s' },
    lease: { duration: '10s', maxExecution: '10m' },
    storeErrors: { commandTimeout: '500ms', saveTimeout: '1s' },
    message: { redeliveryDelay: '3s', maxPause: '20m' },
  },
  number: {
    outcome: { retention: 172_800_000 },
    duplicates: { timeout: 45_000, retryAfter: 2_000 },
    lease: { duration: 10_000, maxExecution: 600_000 },
    storeErrors: { commandTimeout: 500, saveTimeout: 1_000 },
    message: { redeliveryDelay: 3_000, maxPause: 1_200_000 },
  },
} as const satisfies Record<string, IdempotencyOptions>;

const OF_MODULE = {
  text: {
    ...OF_OPERATIONS.text,
    limits: { shutdownTimeout: '7s' },
    breaker: { window: '5s', probeInterval: '250ms' },
    reconcile: { interval: '2m', after: '1h' },
    operator: { settledFor: '3m' },
  },
  number: {
    ...OF_OPERATIONS.number,
    limits: { shutdownTimeout: 7_000 },
    breaker: { window: 5_000, probeInterval: 250 },
    reconcile: { interval: 120_000, after: 3_600_000 },
    operator: { settledFor: 180_000 },
  },
} as const satisfies Record<string, Partial<IdempotencyModuleOptions>>;

/** The paths of all options with a duration, by the schema. */
const PATHS = Object.entries(OPTIONS as Readonly<Record<string, Group | Field>>).flatMap(
  ([group, entry]) =>
    Object.entries('fields' in entry ? (entry.fields as Record<string, Field>) : {})
      .filter(([, { range }]) => typeof range?.[0] === 'string')
      .map(([name]) => `${group}.${name}`),
);

interface Field {
  readonly range?: readonly unknown[];
}

interface Group {
  readonly fields: object;
}

describe('A duration', () => {
  it.each(PATHS)('is the same as text and as a number: %s', (path) => {
    const [text, number] = [OF_MODULE.text, OF_MODULE.number].map((options) =>
      valueAt(resolveOptions('http', { store, ...options }), path),
    );
    expect(text).toBe(valueAt(OF_MODULE.number, path));
    expect(number).toBe(text);
  });

  it('is the same in the module, the class and the method', () => {
    const none = handlerLevel('class', {});
    const places = [
      resolveOptions('http', { store, ...OF_OPERATIONS.text }, none, none),
      resolveOptions('http', { store }, handlerLevel('class', OF_OPERATIONS.text), none),
      resolveOptions('http', { store }, none, handlerLevel('method', OF_OPERATIONS.number)),
    ];
    for (const { outcome, duplicates, lease, storeErrors, message } of places) {
      expect({ outcome, duplicates, lease, storeErrors, message }).toMatchObject(
        OF_OPERATIONS.number,
      );
    }
  });

  it('compiles with a whole number and its unit only', () => {
    const options: IdempotencyOptions[] = [
      { lease: { duration: '10s' } },
      { outcome: { retention: ({ state }) => (state === 'failed' ? '1h' : 7_200_000) } },
      // @ts-expect-error -- no unit
      { lease: { duration: '10' } },
      // @ts-expect-error -- a fraction
      { lease: { duration: '1.5s' } },
      // @ts-expect-error -- a space
      { lease: { duration: '10 s' } },
      // @ts-expect-error -- another unit
      { lease: { duration: '2w' } },
    ];
    const verdicts = options.map((given) => {
      try {
        resolveOptions('http', { store }, handlerLevel('class', {}), handlerLevel('method', given));
        return 'accepted';
      } catch (error) {
        return error instanceof IdempotencyOptionsError ? 'refused' : error;
      }
    });
    expect(verdicts).toEqual(['accepted', 'accepted', 'refused', 'refused', 'refused', 'refused']);
  });

  it('is refused without a unit, as the environment gives it', () => {
    expect(() =>
      resolveOptions('http', { store, outcome: { retention: '86400' as '86400s' } }),
    ).toThrow(
      `The option "outcome.retention" must be a duration from '1ms' to '365d' (a whole number and ms, s, m, h or d), or as many whole milliseconds, but it is "86400".`,
    );
  });

  it('has no other form than its grammar', async () => {
    const near = fc.tuple(
      fc.oneof(fc.nat(400_000).map(String), fc.stringMatching(/^[-+0-9._ e]{0,4}$/)),
      fc.constantFrom('ms', 's', 'm', 'h', 'd', 'S', 'M', 'w', '', ' s', 's ', 'min', 'sec'),
    );
    const values = fc.oneof(
      near.map(([count, unit]) => count + unit),
      fc.string({ maxLength: 6 }),
    );
    let accepted = 0;
    await checkRandomly({
      values,
      runs: 10_000,
      atOnce: 100,
      check: (texts) =>
        Promise.resolve(
          texts.map((text) => {
            const expected = independently(text);
            let found: unknown;
            try {
              const options = { store, outcome: { retention: text as '1s' } };
              found = resolveOptions('http', options).outcome.retention;
              accepted += 1;
            } catch (error) {
              found = undefined;
              if (!String(error).includes('"outcome.retention"'))
                return `not named: ${String(error)}`;
            }
            return found === expected ? undefined : `${JSON.stringify(text)}: ${String(found)}`;
          }),
        ),
    });
    expect(accepted).toBeGreaterThan(100);
  });
});

function valueAt(options: object, path: string): unknown {
  const [group = '', name = ''] = path.split('.');
  return (options as Readonly<Record<string, Readonly<Record<string, unknown>>>>)[group]?.[name];
}

/** By letters, without a pattern. @returns ms from 1 ms to 365 days. */
function independently(text: string): number | undefined {
  const sizes: Record<string, number> = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };
  let digits = '';
  for (const letter of text) {
    if (!'0123456789'.includes(letter)) break;
    digits += letter;
  }
  const size = sizes[text.slice(digits.length)];
  if (digits === '' || size === undefined || String(Number(digits)) !== digits) return undefined;
  const ms = Number(digits) * size;
  return ms >= 1 && ms <= 365 * 86_400_000 ? ms : undefined;
}
