import { PROBLEM_RETRYABLE } from './problem-codes.generated.js';

/** Why a call failed without a problem document. */
export type UnfinishedCode =
  /** The signal in `init.signal` was aborted; `cause` is its reason. */
  | 'idempotency_fetch_aborted'
  /** `deadline` is over, or there is no time left for the pause that another try would need. */
  | 'idempotency_fetch_deadline'
  /** `maxTries` requests were sent. */
  | 'idempotency_fetch_tries_exhausted'
  /** Redirects led to another address, such as a login page, and no replay came: `response` is that of the address. */
  | 'idempotency_fetch_redirected';

/** Codes of the problem documents of `nestjs-idempotency`; a newer server may have more. */
export type IdempotencyProblemCode =
  keyof typeof PROBLEM_RETRYABLE | (string & Record<never, never>);

/** Every code of an {@link IdempotentFetchError}. */
export type IdempotentFetchErrorCode = UnfinishedCode | IdempotencyProblemCode;

/** The state of a call that ended without the operation's response. */
export interface UnfinishedCall {
  readonly key: string;
  readonly tries: number;
  readonly response: Response | undefined;
}

/**
 * The call ended without the operation's response. **It is unknown whether the operation ran**, unless {@link tries} is
 * 0: to find out, send the request again with `{ key: error.key }` within the server's retention. `console.log(error)`
 * shows neither key nor response: keys do not belong in logs.
 */
export class IdempotentFetchError extends Error {
  override readonly name: string = 'IdempotentFetchError';
  /** Whether a retry of the same request with the same key may succeed. */
  readonly retryable: boolean = true;
  readonly #call: UnfinishedCall;

  constructor(
    message: string,
    /** Stable, for programs to branch on. */
    readonly code: IdempotentFetchErrorCode,
    call: UnfinishedCall,
    options?: { readonly cause: unknown },
  ) {
    super(message, options);
    this.#call = call;
  }

  /** The operation's key, for a later retry. */
  get key(): string {
    return this.#call.key;
  }

  /** How many requests were sent. */
  get tries(): number {
    return this.#call.tries;
  }

  /** The last response, such as a gateway's 503; `undefined` if there was none. */
  get response(): Response | undefined {
    return this.#call.response;
  }
}

/**
 * The server responded with a problem of `nestjs-idempotency` instead of the operation's response: a final one
 * ({@link retryable} is `false`), or a temporary one in all {@link IdempotentFetchOptions.maxTries} tries.
 */
export class IdempotencyProblemError extends IdempotentFetchError {
  override readonly name = 'IdempotencyProblemError';
  override readonly retryable: boolean;
  /** The response's HTTP status. */
  readonly status: number;
  /** URI of the problem's type, which leads to its documentation. */
  readonly type: string;
  /** The same for every problem of a type. */
  readonly title: string;
  /** What to do. */
  readonly detail: string;

  constructor(problem: ProblemDetails, call: UnfinishedCall) {
    super(`${String(problem.status)} ${problem.title}`, problem.code, call);
    this.retryable = problem.retryable;
    this.status = problem.status;
    this.type = problem.type;
    this.title = problem.title;
    this.detail = problem.detail;
  }
}

/** The members of a problem document (RFC 9457) of `nestjs-idempotency`. */
export type ProblemDetails = Pick<
  IdempotencyProblemError,
  'code' | 'status' | 'retryable' | 'type' | 'title' | 'detail'
>;

/** A problem document has a few hundred bytes; a longer body, in bytes, is the operation's own and is not parsed. */
const MAX_BYTES = 65_536;

/** `retryable` by code, for a document without it. An unknown code counts as retryable, so that the client keeps the key. */
const RETRYABLE_BY_CODE: Readonly<Record<string, boolean>> = PROBLEM_RETRYABLE;

/**
 * The library's problem document in a response, by its `code`: servers and proxies set types of their own. Reads a clone
 * of the response to the end, so that a body that breaks off is noticed; the response itself stays readable.
 */
export async function readProblem(response: Response): Promise<ProblemDetails | undefined> {
  const [type = ''] = (response.headers.get('content-type') ?? '').split(';', 1);
  const isCandidate = response.status >= 400 && /[/+]json$/i.test(type.trim());
  const document = parse(await readBody(response.clone(), isCandidate ? MAX_BYTES : 0));
  const { code, retryable } = document;
  if (typeof code !== 'string' || !code.startsWith('idempotency_')) return undefined;
  return {
    code,
    status: response.status,
    retryable: typeof retryable === 'boolean' ? retryable : (RETRYABLE_BY_CODE[code] ?? true),
    type: text(document.type, 'about:blank'),
    title: text(document.title, ''),
    detail: text(document.detail, ''),
  };
}

/** Reads the body to the end; returns its text, or '' if that is longer than `maxBytes`. */
async function readBody(response: Response, maxBytes: number): Promise<string> {
  // Responses of React Native and polyfills have no web stream, and only a reliable `text()`.
  const stream: Partial<ReadableStream<Uint8Array>> | null | undefined = response.body;
  const reader = stream?.getReader?.();
  if (reader === undefined) {
    const text = await response.text();
    // A character has at least one byte.
    return text.length > maxBytes ? '' : text;
  }
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return bytes > maxBytes ? '' : text + decoder.decode();
    bytes += value.length;
    if (bytes <= maxBytes) text += decoder.decode(value, { stream: true });
  }
}

function parse(json: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(json)) as Record<string, unknown>;
  } catch {
    return {};
  }
}

function text(member: unknown, absent: string): string {
  return typeof member === 'string' ? member : absent;
}
