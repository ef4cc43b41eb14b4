import type { HttpExchange } from './http-exchange.js';
import type { IdempotencyProblem } from './problem.js';

/**
 * Throws a problem for the exception filters to answer with.
 *
 * @throws {@link IdempotencyProblem} always.
 */
export function refuse(exchange: HttpExchange, problem: IdempotencyProblem): never {
  setProblemHeaders(exchange, problem);
  throw problem;
}

/** Sets a problem's fields before it is thrown: Nest's own filter writes `application/json` unless there is a media type. */
export function setProblemHeaders(exchange: HttpExchange, problem: IdempotencyProblem): void {
  for (const [name, value] of Object.entries(problem.headers)) exchange.setHeader(name, value);
}
