import { HttpException } from '@nestjs/common';
import type { IdempotencyErrorCode } from '../../core/util/errors.js';
import type { HttpExchange } from './http-exchange.js';
import type { RecordedResponse } from './response/http-response.js';

/** Where the pages about the problems stand, unless `problemTypeBase` names the API's own. */
export const PROBLEM_TYPE_BASE =
  'https://github.com/nestjs-idempotency/nestjs-idempotency/blob/main/docs/problems';

/** The body of an answer that the layer gives itself (RFC 9457), as `application/problem+json`. */
export interface ProblemDocument {
  /** Absolute URI, stable, leads to documentation. */
  readonly type: string;
  /** The same for every occurrence of a type. */
  readonly title: string;
  readonly status: number;
  /** What to do; never what was stored. */
  readonly detail: string;
  /** Stable, for programs to branch on. */
  readonly code: IdempotencyErrorCode;
  /** Whether the same request with the same key may be answered otherwise later. */
  readonly retryable: boolean;
}

/** The header fields that describe the document: they are its own, and of no other body. */
export const DOCUMENT_FIELDS = {
  'content-type': 'application/problem+json; charset=utf-8',
  'content-language': 'en',
} as const;

/** What distinguishes one problem from the others (contract, "Answers of the layer itself"). */
interface ProblemKind {
  readonly slug: string;
  readonly status: number;
  readonly code: IdempotencyErrorCode;
  readonly title: string;
  readonly detail: string;
  readonly retryable: boolean;
}

/** What a route adds to its problems. */
export interface ProblemContext {
  readonly typeBase: string;
  readonly retryAfterMs: number;
}

/** Base of the exceptions that the layer answers with; an application may map them in its own filters. */
export abstract class IdempotencyProblem extends HttpException {
  readonly code: IdempotencyErrorCode;
  readonly retryable: boolean;
  /** Whole seconds for `Retry-After`; absent where a repetition cannot help. */
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

  /** The header fields that belong to the problem. */
  get headers(): Readonly<Record<string, string>> {
    return this.retryAfterSeconds === undefined
      ? DOCUMENT_FIELDS
      : { ...DOCUMENT_FIELDS, 'retry-after': String(this.retryAfterSeconds) };
  }

  /** The problem as it goes over the wire where no exception filter can be reached any more. */
  toResponse(): RecordedResponse {
    return {
      status: this.getStatus(),
      headers: this.headers,
      body: Buffer.from(JSON.stringify(this.getResponse())),
    };
  }
}

/** 400: the route needs an `Idempotency-Key` and there is none (contract C18). */
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

/** 400: the key is malformed, given twice, or too long (contract C06–C14). */
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

/** 400: nobody knows whose key it is (contract C30). */
export class CallerUnknownProblem extends IdempotencyProblem {
  override readonly name = 'CallerUnknownProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'caller-unknown',
        status: 400,
        code: 'idempotency_caller_unknown',
        title: 'Idempotency-Key needs an authenticated caller',
        detail: 'Authenticate, so that the key can be told from the same key of another caller.',
        retryable: false,
      },
      context,
    );
  }
}

/** 422: the key was used for another content (contract C31–C41). */
export class KeyReusedProblem extends IdempotencyProblem {
  override readonly name = 'KeyReusedProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'key-reused',
        status: 422,
        code: 'idempotency_key_reused',
        title: 'Idempotency-Key was used for a different request',
        detail: 'Send a new operation with a new key, and a retry with the content it had before.',
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
        detail: 'Repeat the same request with the same key later.',
        retryable: true,
      },
      context,
    );
  }
}

/** 409: done, but what it answered was not kept (contract C70a). */
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
 * 409: the first request's process died, and `onTakeover: 'reject'` forbids to run it again; or this request's attempt
 * outlived its lease, and its key has been used for another content since.
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
        detail:
          'Find out by other means whether it had its effect before sending it with a new key.',
        retryable: false,
      },
      context,
    );
  }
}

/** 400: the content has no canonical form, so a repetition could not be told from another request (contract C35). */
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

/** 500: an option of the operation fails or answers what it must not; the service's log names it. */
export class MisconfiguredProblem extends IdempotencyProblem {
  override readonly name = 'MisconfiguredProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'misconfigured',
        status: 500,
        code: 'idempotency_options_invalid',
        title: 'The operation is misconfigured',
        detail: 'Nothing was executed. Repeat the same request with the same key later.',
        retryable: true,
      },
      context,
    );
  }
}

/** 503: the process is shutting down and begins nothing more. */
export class ShuttingDownProblem extends IdempotencyProblem {
  override readonly name = 'ShuttingDownProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'shutting-down',
        status: 503,
        code: 'idempotency_shutting_down',
        title: 'The service is shutting down',
        detail: 'Repeat the same request with the same key later.',
        retryable: true,
      },
      context,
    );
  }
}

/** 503: the store cannot be reached, so nothing was executed, or its outcome could not be stored (contract C87). */
export class StoreUnavailableProblem extends IdempotencyProblem {
  override readonly name = 'StoreUnavailableProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'store-unavailable',
        status: 503,
        code: 'idempotency_store_unavailable',
        title: 'Idempotency store is unavailable',
        detail: 'Repeat the same request with the same key later.',
        retryable: true,
      },
      context,
    );
  }
}

/**
 * 503: the operation's transaction met a concurrent one (serialization failure or deadlock), and was rolled back
 * with all that it had written.
 */
export class TransactionConflictProblem extends IdempotencyProblem {
  override readonly name = 'TransactionConflictProblem';
  constructor(context: ProblemContext) {
    super(
      {
        slug: 'transaction-conflict',
        status: 503,
        code: 'idempotency_transaction_conflict',
        title: 'The transaction met a conflict',
        detail: 'Nothing was changed. Repeat the same request with the same key later.',
        retryable: true,
      },
      context,
    );
  }
}

/**
 * Throws a problem for the exception filters to answer with.
 *
 * @throws {@link IdempotencyProblem} always.
 */
export function throwProblem(exchange: HttpExchange, problem: IdempotencyProblem): never {
  setProblemHeaders(exchange, problem);
  throw problem;
}

/**
 * Sets a problem's fields before it is thrown. Those of its document wait for the document: set before, some adapters
 * would write `application/json` over them, and a body that a filter sends in its place would have them.
 */
export function setProblemHeaders(exchange: HttpExchange, problem: IdempotencyProblem): void {
  for (const [name, value] of Object.entries(problem.headers)) {
    // A type or language that is there already was meant for the operation's answer.
    if (name in DOCUMENT_FIELDS) exchange.removeHeader(name);
    else exchange.setHeader(name, value);
  }
  exchange.setHeadersOf(problem.getResponse(), DOCUMENT_FIELDS);
}
