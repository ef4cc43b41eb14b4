import { HttpException } from '@nestjs/common';
import type { IdempotencyErrorCode } from '../../core/errors/errors.js';
import { REJECTIONS, type RejectionCode } from '../../core/errors/rejections.js';
import type { HttpExchange } from './http-exchange.js';
import type { RecordedResponse } from './response/http-response.js';

/** Base URI of the problem pages, unless `http.problemTypeBase` is set. */
export const PROBLEM_TYPE_BASE =
  'https://github.com/nestjs-idempotency/nestjs-idempotency/blob/main/docs/reference/problems';

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

export interface ProblemContext {
  readonly typeBase: string;
  readonly retryAfterMs: number;
}

/** The exception for a rejected request. Exception filters of the application may handle it, by its {@link code}. */
export class IdempotencyProblem extends HttpException {
  override readonly name = 'IdempotencyProblem';
  /** Stable, for programs to branch on. */
  readonly code: IdempotencyErrorCode;
  readonly retryable: boolean;
  /** Whole seconds for `Retry-After`; `undefined` if a retry cannot help. */
  readonly retryAfterSeconds: number | undefined;

  private constructor(code: RejectionCode, { typeBase, retryAfterMs }: ProblemContext) {
    const { status, title, detail, retryable, page } = REJECTIONS[code];
    const type = `${typeBase}/${page}`;
    const document: ProblemDocument = { type, title, status, detail, code, retryable };
    super(document, status);
    this.message = title;
    this.code = code;
    this.retryable = retryable;
    this.retryAfterSeconds = retryable ? Math.max(1, Math.ceil(retryAfterMs / 1000)) : undefined;
  }

  /** @internal */
  static of(code: RejectionCode, context: ProblemContext): IdempotencyProblem {
    return new IdempotencyProblem(code, context);
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

/** @throws {@link IdempotencyProblem} always, for the exception filters. */
export function throwProblem(
  exchange: HttpExchange,
  code: RejectionCode,
  context: ProblemContext,
): never {
  const problem = IdempotencyProblem.of(code, context);
  setProblemHeaders(exchange, problem);
  throw problem;
}

/**
 * Sets a problem's header fields before it is thrown. Those of the document are set when the document is sent: earlier,
 * some adapters would overwrite them with `application/json`, and another body from a filter would get them.
 */
export function setProblemHeaders(exchange: HttpExchange, problem: IdempotencyProblem): void {
  // An outer interceptor has responded, for example a timeout.
  if (exchange.rawResponse.headersSent) return;
  for (const [name, value] of Object.entries(problem.headers)) {
    // An existing type or language was meant for the operation's response.
    if (name in DOCUMENT_FIELDS) exchange.removeHeader(name);
    else exchange.setHeader(name, value);
  }
  exchange.setHeadersOf(problem.getResponse(), DOCUMENT_FIELDS);
}
