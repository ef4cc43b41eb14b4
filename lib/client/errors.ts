import { textWithin } from './response-body.js';

/** Why a call ended without the operation's answer, where no problem document says it. */
export type UnfinishedCode =
  /** The signal in `init.signal` was aborted; `cause` is its reason. */
  | 'idempotency_fetch_aborted'
  /** `deadlineMs` is over, or there is no time left for the pause that another try would need. */
  | 'idempotency_fetch_deadline'
  /** `maxTries` requests were sent. */
  | 'idempotency_fetch_tries_exhausted';

/** The server's problems, and whether the same request with the same key may be answered otherwise later. */
export const PROBLEM_RETRYABLE = {
  idempotency_key_missing: false,
  idempotency_key_invalid: false,
  idempotency_caller_unknown: false,
  idempotency_key_reused: false,
  idempotency_in_progress: true,
  idempotency_response_not_kept: false,
  idempotency_outcome_unknown: false,
  idempotency_content_invalid: false,
  idempotency_options_invalid: true,
  idempotency_shutting_down: true,
  idempotency_transaction_conflict: true,
  idempotency_store_unavailable: true,
} as const;

/** For a document that does not say it. What is not known may pass: nobody gives up a key for lack of knowledge. */
function isRetryable(code: IdempotencyProblemCode): boolean {
  const known: Readonly<Record<string, boolean>> = PROBLEM_RETRYABLE;
  return known[code] ?? true;
}

/** Codes of the problem documents that `nestjs-idempotency` answers with; a newer server may know more. */
export type IdempotencyProblemCode =
  keyof typeof PROBLEM_RETRYABLE | (string & Record<never, never>);

export type IdempotentFetchErrorCode = UnfinishedCode | IdempotencyProblemCode;

/** What is known of a call that ended without the operation's answer. */
export interface UnfinishedCall {
  readonly key: string;
  readonly tries: number;
  readonly response: Response | undefined;
}

/**
 * The call ended without the operation's answer: **whether the operation was executed is not known** unless
 * {@link tries} is 0. Calling again with the same request and `{ key: error.key }`, at any time before the
 * server's retention ends, finds out without executing it twice.
 *
 * The key and the response are not shown by `console.log(error)`: keys do not belong in logs.
 */
export class IdempotentFetchError extends Error {
  override readonly name: string = 'IdempotentFetchError';
  /** Whether the same request with the same key may be answered otherwise later. */
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

  /** The operation's key, to go on with later. */
  get key(): string {
    return this.#call.key;
  }

  /** How many requests were sent. */
  get tries(): number {
    return this.#call.tries;
  }

  /** The last answer that came, such as a gateway's 503; `undefined` where none came at all. */
  get response(): Response | undefined {
    return this.#call.response;
  }
}

/** The members of a problem document (RFC 9457) of the idempotency layer. */
export interface ProblemDetails {
  readonly code: IdempotencyProblemCode;
  readonly status: number;
  readonly retryable: boolean;
  readonly type: string;
  readonly title: string;
  readonly detail: string;
}

/**
 * The server's idempotency layer answered in the operation's place: with something that no repetition changes
 * ({@link retryable} is `false`), or with the same "not now" until `maxTries` were sent.
 */
export class IdempotencyProblemError extends IdempotentFetchError {
  override readonly name = 'IdempotencyProblemError';
  override readonly retryable: boolean;
  /** The answer's HTTP status. */
  readonly status: number;
  /** URI of the problem's kind; leads to its documentation. */
  readonly type: string;
  /** The same for every problem of one kind. */
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

/** A problem document has some hundred bytes. What is longer is the operation's own, and is not parsed. */
const MAX_BYTES = 65_536;

/**
 * The problem that the answer states, where it comes from the idempotency layer: known by its `code`, under any JSON
 * type, for servers, proxies and exception filters have types of their own. A document of the operation's is the
 * operation's answer and none of ours.
 */
export async function problemIn(response: Response): Promise<ProblemDetails | undefined> {
  if (response.status < 400 || !isJson(response.headers.get('content-type') ?? '')) {
    return undefined;
  }
  const document = parse(await textWithin(MAX_BYTES, response));
  const { code } = document;
  if (typeof code !== 'string' || !code.startsWith('idempotency_')) return undefined;
  return {
    code,
    status: response.status,
    retryable: typeof document.retryable === 'boolean' ? document.retryable : isRetryable(code),
    type: text(document.type, 'about:blank'),
    title: text(document.title, ''),
    detail: text(document.detail, ''),
  };
}

function isJson(contentType: string): boolean {
  const [type = ''] = contentType.split(';', 1);
  return /[/+]json$/i.test(type.trim());
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
