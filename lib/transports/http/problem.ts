import { HttpException } from '@nestjs/common';
import type { IdempotencyErrorCode } from '../../core/util/errors.js';
import type { HttpExchange } from './http-exchange.js';
import type { RecordedResponse } from './response/http-response.js';

/** Base URI of the problem pages, unless `problemTypeBase` is set. */
export const PROBLEM_TYPE_BASE =
  'https://github.com/nestjs-idempotency/nestjs-idempotency/blob/main/docs/problems';

/** The body of a rejection, as `application/problem+json` (RFC 9457). */
export interface ProblemDocument {
  /** Absolute, stable URI of the documentation. */
  readonly type: string;
  /** The same for every problem of a type. */
  readonly title: string;
  readonly status: number;
  /** What to do. Never contains stored data. */
  readonly detail: string;
  /** Stable, for programs to branch on. */
  readonly code: IdempotencyErrorCode;
  /** Whether a later retry with the same key may get another response. */
  readonly retryable: boolean;
}

/** The header fields of the problem document, and of no other body. */
export const DOCUMENT_FIELDS = {
  'content-type': 'application/problem+json; charset=utf-8',
  'content-language': 'en',
} as const;

/** The properties of one type of problem (contract, section H). */
interface ProblemKind {
  readonly slug: string;
  readonly status: number;
  readonly code: IdempotencyErrorCode;
  readonly title: string;
  readonly detail: string;
  readonly retryable: boolean;
}

export interface ProblemContext {
  readonly typeBase: string;
  readonly retryAfterMs: number;
}

/** Base of the exceptions for rejected requests. Exception filters of the application may handle them. */
export abstract class IdempotencyProblem extends HttpException {
  readonly code: IdempotencyErrorCode;
  readonly retryable: boolean;
  /** Whole seconds for `Retry-After`; `undefined` if a retry cannot help. */
  readonly retryAfterSeconds: number | undefined;

  protected constructor(kind: ProblemKind, { typeBase, retryAfterMs }: ProblemContext) {
    const { slug, status, code, title, detail, retryable } = kind;
    const type = `${typeBase}/${slug}`;
    const document: ProblemDocument = { type, title, status, detail, code, retryable };
    super(document, status);
    this.message = title;
    this.code = code;
    this.retryable = retryable;
    this.retryAfterSeconds = retryable ? Math.max(1, Math.ceil(retryAfterMs / 1000)) : undefined;
  }

  /** The header fields of the problem document, with `Retry-After` if a retry can help. */
  get headers(): Readonly<Record<string, string>> {
    return this.retryAfterSeconds === undefined
      ? DOCUMENT_FIELDS
      : { ...DOCUMENT_FIELDS, 'retry-after': String(this.retryAfterSeconds) };
  }

  /** The problem as a response, for when exception filters can no longer run. */
  toResponse(): RecordedResponse {
    return {
      status: this.getStatus(),
      headers: this.headers,
      body: Buffer.from(JSON.stringify(this.getResponse())),
    };
  }
}

/** 400: the request has no `Idempotency-Key`, which the route requires (contract C18). */
export class KeyMissingProblem extends IdempotencyProblem {
  override readonly name = 'KeyMissingProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'key-missing',
        status: 400,
        code: 'idempotency_key_missing',
        title: 'Idempotency-Key is missing',
        detail:
          'Send a key that is new for every intended operation and the same on every retry of it.',
        retryable: false,
      },
      context,
    );
  }
}

/** 400: the key is malformed, present twice, or too long (contract C06–C14). */
export class KeyInvalidProblem extends IdempotencyProblem {
  override readonly name = 'KeyInvalidProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'key-invalid',
        status: 400,
        code: 'idempotency_key_invalid',
        title: 'Idempotency-Key is not valid',
        detail: 'Send the key once, in printable ASCII, within the length that the API documents.',
        retryable: false,
      },
      context,
    );
  }
}

/** 400: the caller is unknown (contract C30). */
export class CallerUnknownProblem extends IdempotencyProblem {
  override readonly name = 'CallerUnknownProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'caller-unknown',
        status: 400,
        code: 'idempotency_caller_unknown',
        title: 'Idempotency-Key needs an authenticated caller',
        detail: 'Authenticate: a key identifies an operation only together with its caller.',
        retryable: false,
      },
      context,
    );
  }
}

/** 422: the key was used for a request with other content (contract C31–C41). */
export class KeyReusedProblem extends IdempotencyProblem {
  override readonly name = 'KeyReusedProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'key-reused',
        status: 422,
        code: 'idempotency_key_reused',
        title: 'Idempotency-Key was used for a different request',
        detail: 'Use a new key for a new operation; retry with unchanged content.',
        retryable: false,
      },
      context,
    );
  }
}

/** 409: the first request is still being processed (contract C50). */
export class InProgressProblem extends IdempotencyProblem {
  override readonly name = 'InProgressProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'in-progress',
        status: 409,
        code: 'idempotency_in_progress',
        title: 'A request with this Idempotency-Key is in progress',
        detail: 'Retry the same request with the same key later.',
        retryable: true,
      },
      context,
    );
  }
}

/** 409: the operation is done, but its response was not kept (contract C70a). */
export class ResponseNotKeptProblem extends IdempotencyProblem {
  override readonly name = 'ResponseNotKeptProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'response-not-kept',
        status: 409,
        code: 'idempotency_response_not_kept',
        title: 'The request was completed, its response was not kept',
        detail: 'Do not repeat it; look up its result by other means.',
        retryable: false,
      },
      context,
    );
  }
}

/**
 * 409: an earlier attempt's outcome is unknown (its process died, and `onTakeover` is `'reject'`), or this attempt lost
 * its lease and the key was used for other content.
 */
export class OutcomeUnknownProblem extends IdempotencyProblem {
  override readonly name = 'OutcomeUnknownProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'outcome-unknown',
        status: 409,
        code: 'idempotency_outcome_unknown',
        title: 'The outcome of the first request is unknown',
        detail: 'Check whether the operation took effect before you send it with a new key.',
        retryable: false,
      },
      context,
    );
  }
}

/** 400: the content has no canonical form, so retries cannot be recognised (contract C35). */
export class ContentInvalidProblem extends IdempotencyProblem {
  override readonly name = 'ContentInvalidProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'content-invalid',
        status: 400,
        code: 'idempotency_content_invalid',
        title: "The request's content cannot be compared",
        detail:
          'Send a media type that the API reads, with finite numbers and at most 1,000 levels of nesting.',
        retryable: false,
      },
      context,
    );
  }
}

/** 500: an option of the operation throws or returns an invalid value; the service's log names it. */
export class MisconfiguredProblem extends IdempotencyProblem {
  override readonly name = 'MisconfiguredProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'misconfigured',
        status: 500,
        code: 'idempotency_options_invalid',
        title: 'The operation is misconfigured',
        detail: 'Nothing was executed. Retry the same request with the same key later.',
        retryable: true,
      },
      context,
    );
  }
}

/** 503: the process is shutting down and starts no more operations. */
export class ShuttingDownProblem extends IdempotencyProblem {
  override readonly name = 'ShuttingDownProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'shutting-down',
        status: 503,
        code: 'idempotency_shutting_down',
        title: 'The service is shutting down',
        detail: 'Retry the same request with the same key later.',
        retryable: true,
      },
      context,
    );
  }
}

/** 503: the store is unavailable: nothing was executed, or the outcome could not be stored (contract C87). */
export class StoreUnavailableProblem extends IdempotencyProblem {
  override readonly name = 'StoreUnavailableProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'store-unavailable',
        status: 503,
        code: 'idempotency_store_unavailable',
        title: 'Idempotency store is unavailable',
        detail: 'Retry the same request with the same key later.',
        retryable: true,
      },
      context,
    );
  }
}

/** 503: the operation's transaction was rolled back after a serialization failure or deadlock with another one. */
export class TransactionConflictProblem extends IdempotencyProblem {
  override readonly name = 'TransactionConflictProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'transaction-conflict',
        status: 503,
        code: 'idempotency_transaction_conflict',
        title: 'The transaction met a conflict',
        detail: 'Nothing was changed. Retry the same request with the same key later.',
        retryable: true,
      },
      context,
    );
  }
}

/** @throws {@link IdempotencyProblem} always, for the exception filters. */
export function throwProblem(exchange: HttpExchange, problem: IdempotencyProblem): never {
  setProblemHeaders(exchange, problem);
  throw problem;
}

/**
 * Sets a problem's header fields before it is thrown. Those of the document are set when the document is sent: earlier,
 * some adapters would overwrite them with `application/json`, and another body from a filter would get them.
 */
export function setProblemHeaders(exchange: HttpExchange, problem: IdempotencyProblem): void {
  for (const [name, value] of Object.entries(problem.headers)) {
    // An existing type or language was meant for the operation's response.
    if (name in DOCUMENT_FIELDS) exchange.removeHeader(name);
    else exchange.setHeader(name, value);
  }
  exchange.setHeadersOf(problem.getResponse(), DOCUMENT_FIELDS);
}
