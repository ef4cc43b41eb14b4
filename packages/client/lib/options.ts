import { idempotencyKeyField, newIdempotencyKey } from './idempotency-key.js';
import { LONGEST_TIMER_MS } from './time-limit.js';

/**
 * `'500ms'`, `'45s'`, `'10m'`, `'48h'`, `'7d'`, or as many milliseconds; up to 24 days. A string without its unit is
 * refused.
 */
export type Duration = `${bigint}${'ms' | 's' | 'm' | 'h' | 'd'}` | number;

/** Options of one operation, besides those of `fetch`. */
export interface IdempotentFetchOptions {
  /**
   * The operation's key: the same on every retry, different for every other operation. Printable ASCII, at most 255
   * characters by default of the server. To continue an earlier call, pass its key.
   * @defaultValue a new random UUID
   */
  readonly key?: string | undefined;

  /** The maximum number of requests per call, the first one included. @defaultValue 10 */
  readonly maxTries?: number;

  /**
   * How long the whole call may take with its pauses, or `Infinity`. Ends it at once if the next pause would exceed it.
   * @defaultValue '1m'
   */
  readonly deadline?: Duration;

  /**
   * How long one try may take until its response is read to the end, or `Infinity`. A longer try counts as lost. Set it
   * above the server's `duplicates.timeout` if duplicates wait there (`duplicates: 'wait'`).
   * @defaultValue '20s'
   */
  readonly tryTimeout?: Duration;

  /**
   * Maximum pause after the first try; it doubles with every try. Each pause is random between 0 and the maximum ("full
   * jitter") and is added to `Retry-After`.
   * @defaultValue '200ms'
   */
  readonly backoffBase?: Duration;

  /** Limit of the random pauses; that of `Retry-After` is {@link deadline}. @defaultValue '10s' */
  readonly backoffCap?: Duration;

  /**
   * Whether 5xx responses other than 503 are retried (501 and 505 never are): the server runs a failed operation again
   * by default, and a gateway's 502 or 504 says nothing about it. Replays are final, those of a 5xx included.
   * @defaultValue true
   */
  readonly retryServerErrors?: boolean;

  /** Whether 425 "too early" and 429 "too many requests" are retried. @defaultValue true */
  readonly retryThrottled?: boolean;

  /** Whether a stream as body is read into memory first. Otherwise it is rejected. @defaultValue false */
  readonly bufferStream?: boolean;

  /** Name of the header with the key: the server's option `key`. @defaultValue 'Idempotency-Key' */
  readonly keyHeader?: string;

  /** Name of the header that marks a replay: the server's `http.replayHeader`. @defaultValue 'Idempotent-Replayed' */
  readonly replayHeader?: string;

  /** Sends the requests, with the signature of `fetch`. @defaultValue the global `fetch` */
  readonly fetch?: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

  /** The random source of the pauses: returns a number from 0 to below 1. @defaultValue `Math.random` */
  readonly random?: () => number;
}

/** What the values of an option have to be. */
interface Kind {
  readonly range: string;
  readonly accepts: (value: unknown) => boolean;
  /** A duration counts in milliseconds. */
  readonly isDuration?: true;
}

const DURATION = `a duration such as '45s', or milliseconds, from 1 to ${String(LONGEST_TIMER_MS)}`;
const isDuration = (value: unknown): boolean => {
  const ms = inMilliseconds(value);
  return typeof ms === 'number' && ms >= 1 && ms <= LONGEST_TIMER_MS;
};

const count: Kind = {
  range: 'an integer from 1, or Infinity',
  accepts: (value) => value === Infinity || (Number.isSafeInteger(value) && Number(value) >= 1),
};
const time: Kind = {
  range: `${DURATION}, or Infinity`,
  accepts: (value) => value === Infinity || isDuration(value),
  isDuration: true,
};
const pause: Kind = { range: DURATION, accepts: isDuration, isDuration: true };
const flag: Kind = { range: 'true or false', accepts: (value) => typeof value === 'boolean' };
const header: Kind = { range: "a header's name", accepts: (value) => typeof value === 'string' };
const func: Kind = { range: 'a function', accepts: (value) => typeof value === 'function' };

/** Every option, with its default. */
export const CLIENT_OPTIONS: {
  readonly [Name in keyof Required<IdempotentFetchOptions>]: readonly [
    IdempotentFetchOptions[Name],
    Kind,
  ];
} = {
  // Checked where its header is written, and never shown.
  key: [undefined, { range: '', accepts: () => true }],
  maxTries: [10, count],
  deadline: ['1m', time],
  tryTimeout: ['20s', time],
  backoffBase: ['200ms', pause],
  backoffCap: ['10s', pause],
  retryServerErrors: [true, flag],
  retryThrottled: [true, flag],
  bufferStream: [false, flag],
  keyHeader: ['Idempotency-Key', header],
  replayHeader: ['Idempotent-Replayed', header],
  fetch: [undefined, func],
  random: [(): number => Math.random(), func],
};

type Durations = 'deadline' | 'tryTimeout' | 'backoffBase' | 'backoffCap';

/** The options of one call, complete and checked; durations in milliseconds. */
export type CallSettings = Readonly<
  Required<Omit<IdempotentFetchOptions, 'fetch' | 'key' | Durations>>
> &
  Readonly<Record<Durations, number>> &
  Pick<IdempotentFetchOptions, 'fetch'> & {
    readonly key: string;
    readonly keyField: string;
  };

/** @throws TypeError naming the invalid option. */
export function callSettings(options: IdempotentFetchOptions): CallSettings {
  const given = new Map<string, unknown>(Object.entries(options));
  const settings: Record<string, unknown> = {};
  for (const [name, [value, { range, accepts, isDuration: isTime = false }]] of Object.entries(
    CLIENT_OPTIONS,
  )) {
    const own = given.get(name);
    const chosen = own === undefined ? value : own;
    if (chosen !== value && !accepts(chosen)) throwInvalid(name, range, chosen);
    settings[name] = isTime ? inMilliseconds(chosen) : chosen;
    given.delete(name);
  }
  for (const name of given.keys()) throwUnknown(name);
  const key = options.key ?? newIdempotencyKey();
  return { ...(settings as unknown as CallSettings), key, keyField: idempotencyKeyField(key) };
}

const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Anything but a text with its unit stays as it is. */
function inMilliseconds(value: unknown): unknown {
  const [, number, unit] =
    (typeof value === 'string' ? /^(0|[1-9]\d*)(ms|[smhd])$/.exec(value) : undefined) ?? [];
  return unit === undefined ? value : Number(number) * (UNITS[unit] ?? NaN);
}

function throwInvalid(name: string, range: string, value: unknown): never {
  throw new TypeError(`"${name}" must be ${range}, but it is ${String(value)}.`);
}

/** A misspelt option would silently have its default. */
function throwUnknown(name: string): never {
  const names = Object.keys(CLIENT_OPTIONS);
  const start = name.slice(0, 4).toLowerCase();
  const meant = names.find((each) => each.toLowerCase().startsWith(start));
  const advice =
    meant === undefined ? `Valid options: ${names.join(', ')}.` : `Did you mean "${meant}"?`;
  throw new TypeError(`"${name}" is not an option of idempotentFetch. ${advice}`);
}

/** What {@link idempotentFetch} resolves with: the operation's response, and how it was obtained. */
export interface IdempotentResponse {
  /**
   * The response, of whatever status: a 402 of the operation is a response, not an error. Its body is in memory, so
   * `json()`, `text()` and the like cannot fail on the network.
   */
  readonly response: Response;
  /** The operation's key, as sent in all tries. */
  readonly key: string;
  /**
   * Whether the server replayed a stored outcome. Always `false` in a browser on another origin, unless the server
   * exposes the header (`Access-Control-Expose-Headers`).
   */
  readonly replayed: boolean;
  /** Requests sent until this response: 1 if the first one got it. */
  readonly tries: number;
}
