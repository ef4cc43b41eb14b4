import type { HttpExchange } from './http-exchange.js';
import type { IdempotencyProblem } from './problem.js';

/**
 * Throws a problem for the exception filters to answer with. Its fields are set beforehand: Nest's own
 * filter writes `application/json` unless there is a media type already.
 */
export function refuse(exchange: HttpExchange, problem: IdempotencyProblem): never {
  for (const [name, value] of Object.entries(problem.headers)) exchange.setHeader(name, value);
  throw problem;
}
