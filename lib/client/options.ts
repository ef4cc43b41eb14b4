import { LONGEST_TIMER_MS } from './call-limits.js';
import { idempotencyKeyField, newIdempotencyKey } from './idempotency-key.js';

/** What can be said about one operation beyond what `fetch` knows. */
export interface IdempotentFetchOptions {
  /**
   * The operation's key: the same for every repetition of it, another for every other operation. Give the one
   * of an earlier call to go on with its operation. Printable ASCII; the server's limit is 255 characters
   * unless it says otherwise.
   * @defaultValue a new random UUID
   */
  readonly key?: string | undefined;

  /**
   * The most requests that one call sends, the first one included.
   * @defaultValue 10
   */
  readonly maxTries?: number;

  /**
   * Milliseconds that the whole call may take, with all tries and pauses; `Infinity` for no limit. Ends the
   * call at once where the next pause would not fit.
   * @defaultValue 60000
   */
  readonly deadlineMs?: number;

  /**
   * Milliseconds that one try may take until its answer is read to the end; `Infinity` for no limit. A try
   * that takes longer counts as lost, and the next one finds the operation in progress, or done. Longer than
   * the server's `waitTimeoutMs` where it holds duplicates (`whenInProgress: 'wait'`).
   * @defaultValue 20000
   */
  readonly tryTimeoutMs?: number;

  /**
   * Milliseconds of the longest pause after the first try; it doubles with every try. Each pause is drawn
   * between 0 and that ("full jitter"), and comes on top of what `Retry-After` asks for.
   * @defaultValue 200
   */
  readonly backoffBaseMs?: number;

  /**
   * Milliseconds that the drawn pauses do not grow beyond. `Retry-After` is not bound by it, only by
   * {@link deadlineMs}.
   * @defaultValue 10000
   */
  readonly backoffCapMs?: number;

  /**
   * Whether 5xx answers other than 503 are retried (501 and 505 never are). On by default because the server
   * lets a failed operation run again by default, and because a 502 or 504 of a gateway says nothing about
   * what happened behind it. A 5xx that the server keeps comes back marked as replay, which ends the call.
   * @defaultValue true
   */
  readonly retryServerErrors?: boolean;

  /**
   * Whether 425 "too early" and 429 "too many requests" are retried.
   * @defaultValue true
   */
  readonly retryThrottled?: boolean;

  /**
   * Whether a stream given as body is read into memory first. A stream can be sent only once, so without this
   * it is refused.
   * @defaultValue false
   */
  readonly bufferStream?: boolean;

  /**
   * Name of the header that carries the key: what the server's option `key` says.
   * @defaultValue 'Idempotency-Key'
   */
  readonly keyHeader?: string;

  /**
   * Name of the header that marks a replay: what the server's option `replayHeader` says.
   * @defaultValue 'Idempotent-Replayed'
   */
  readonly replayHeader?: string;

  /**
   * What sends the requests, with `fetch`'s own signature.
   * @defaultValue the global `fetch`
   */
  readonly fetch?: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

  /**
   * Draws the pauses: a number from 0 to below 1.
   * @defaultValue `Math.random`
   */
  readonly random?: () => number;
}

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
    throwInvalid('maxTries', 'an integer from 1, or Infinity', maxTries);
  }
  for (const [name, value] of Object.entries({ deadlineMs, tryTimeoutMs })) {
    if (!isDuration(value) && value !== Infinity)
      throwInvalid(name, `${DURATION}, or Infinity`, value);
  }
  for (const [name, value] of Object.entries({ backoffBaseMs, backoffCapMs })) {
    if (!isDuration(value)) throwInvalid(name, DURATION, value);
  }
}

function isDuration(value: unknown): boolean {
  return typeof value === 'number' && value >= 1 && value <= LONGEST_TIMER_MS;
}

function throwInvalid(name: string, range: string, value: unknown): never {
  throw new TypeError(`"${name}" must be ${range}, but it is ${String(value)}.`);
}

/** What {@link idempotentFetch} resolves with: the operation's answer, and how it was come by. */
export interface IdempotentResponse {
  /**
   * The answer, of whatever status: as with `fetch`, a 402 of the operation is an answer. It has been read
   * to its end, so that `json()`, `text()` and the like cannot fail for the network's sake any more.
   */
  readonly response: Response;
  /** The key that the operation was sent with, in all tries. */
  readonly key: string;
  /**
   * Whether the server repeated an outcome that it had stored, instead of running the operation for this
   * very request. Always `false` in a browser on another origin whose server does not expose the marker's
   * header (`Access-Control-Expose-Headers`).
   */
  readonly replayed: boolean;
  /** How many requests were sent until this answer came: 1 when the first one got it. */
  readonly tries: number;
}
