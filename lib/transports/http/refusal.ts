import type { HttpExchange } from './http-exchange.js';
import { DOCUMENT_FIELDS, type IdempotencyProblem } from './problem.js';

/**
 * Throws a problem for the exception filters to answer with.
 *
 * @throws {@link IdempotencyProblem} always.
 */
export function refuse(exchange: HttpExchange, problem: IdempotencyProblem): never {
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
