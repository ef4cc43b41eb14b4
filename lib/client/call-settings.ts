import { idempotencyKeyField, newIdempotencyKey } from './idempotency-key.js';
import type { IdempotentFetchOptions } from './options.js';
import { LONGEST_TIMER_MS } from './timer.js';

/** The options of one call, complete and checked. */
export type CallSettings = Readonly<Required<Omit<IdempotentFetchOptions, 'fetch' | 'key'>>> &
  Pick<IdempotentFetchOptions, 'fetch'> & {
    readonly key: string;
    /** The key as its header's value. */
    readonly keyField: string;
  };

/** What holds where the caller says nothing. */
export const CLIENT_DEFAULTS = {
  maxTries: 10,
  deadlineMs: 60_000,
  tryTimeoutMs: 20_000,
  backoffBaseMs: 200,
  backoffCapMs: 10_000,
  retryServerErrors: true,
  retryThrottled: true,
  bufferStream: false,
  keyHeader: 'Idempotency-Key',
  replayHeader: 'Idempotent-Replayed',
} as const;

const NAMES = new Set([...Object.keys(CLIENT_DEFAULTS), 'key', 'fetch', 'random']);
const DURATION = `milliseconds from 1 to ${String(LONGEST_TIMER_MS)}`;

/** @throws TypeError that names the option which cannot work. */
export function callSettings(options: IdempotentFetchOptions): CallSettings {
  checkNames(options);
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const key = options.key ?? newIdempotencyKey();
  const settings = {
    ...CLIENT_DEFAULTS,
    random: Math.random,
    ...(Object.fromEntries(given) as Omit<IdempotentFetchOptions, 'key'>),
    key,
    keyField: idempotencyKeyField(key),
  };
  checkNumbers(settings);
  return settings;
}

/** A misspelt name would silently leave the default in force. */
function checkNames(options: object): void {
  for (const name of Object.keys(options)) {
    if (NAMES.has(name)) continue;
    const known = [...NAMES].join(', ');
    const start = name.slice(0, 4).toLowerCase();
    const meant = [...NAMES].find((each) => each.toLowerCase().startsWith(start));
    const advice = meant === undefined ? `It knows: ${known}.` : `Did you mean "${meant}"?`;
    throw new TypeError(`"${name}" is no option of idempotentFetch. ${advice}`);
  }
}

function checkNumbers(settings: CallSettings): void {
  const { maxTries, deadlineMs, tryTimeoutMs, backoffBaseMs, backoffCapMs } = settings;
  if (maxTries !== Infinity && !(Number.isSafeInteger(maxTries) && maxTries >= 1)) {
    refuse('maxTries', 'an integer from 1, or Infinity', maxTries);
  }
  for (const [name, value] of Object.entries({ deadlineMs, tryTimeoutMs })) {
    if (!isDuration(value) && value !== Infinity) refuse(name, `${DURATION}, or Infinity`, value);
  }
  for (const [name, value] of Object.entries({ backoffBaseMs, backoffCapMs })) {
    if (!isDuration(value)) refuse(name, DURATION, value);
  }
}

function isDuration(value: unknown): boolean {
  return typeof value === 'number' && value >= 1 && value <= LONGEST_TIMER_MS;
}

function refuse(name: string, range: string, value: unknown): never {
  throw new TypeError(`"${name}" must be ${range}, but it is ${String(value)}.`);
}
