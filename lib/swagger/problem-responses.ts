import type { HttpRoute } from '../transports/http/http-route.js';
import {
  CallerUnknownProblem,
  ContentInvalidProblem,
  InProgressProblem,
  KeyInvalidProblem,
  KeyMissingProblem,
  KeyReusedProblem,
  OutcomeUnknownProblem,
  ResponseNotKeptProblem,
  ShuttingDownProblem,
  StoreUnavailableProblem,
  TransactionConflictProblem,
  type IdempotencyProblem,
  type ProblemContext,
  type ProblemDocument,
} from '../transports/http/problem.js';
import type { Headers, Reference, Response } from './open-api.js';
import { PROBLEM_SCHEMA_NAME } from './problem-schema.js';

type ProblemClass = new (context: ProblemContext) => IdempotencyProblem;
type OwnResponse = Exclude<Response, Reference>;

/** The layer's own answers on a route, by status: those that its options allow. */
export function problemResponses(route: HttpRoute): Record<string, OwnResponse> {
  const byStatus = new Map<number, IdempotencyProblem[]>();
  for (const Problem of possibleProblems(route)) {
    const problem = new Problem(route.problems);
    const status = problem.getStatus();
    byStatus.set(status, [...(byStatus.get(status) ?? []), problem]);
  }
  return Object.fromEntries([...byStatus].map(([status, all]) => [status, responseOf(all)]));
}

function* possibleProblems({ options, protocol }: HttpRoute): Generator<ProblemClass> {
  const { required, anonymous, fingerprint, keyScope } = options;
  if (required) yield KeyMissingProblem;
  yield KeyInvalidProblem;
  if (anonymous === 'reject') yield CallerUnknownProblem;
  if (fingerprint !== false) yield ContentInvalidProblem;
  yield InProgressProblem;
  yield ResponseNotKeptProblem;
  if (protocol.onTakeover === 'reject') yield OutcomeUnknownProblem;
  // Another operation under the principal's key may compare.
  if (fingerprint !== false || keyScope === 'principal') yield KeyReusedProblem;
  const { onStoreUnavailable, onSaveFailure } = protocol;
  if (onStoreUnavailable === 'reject' || onSaveFailure === 'error') yield StoreUnavailableProblem;
  if (protocol.transactional) yield TransactionConflictProblem;
  yield ShuttingDownProblem;
}

function responseOf(problems: readonly IdempotencyProblem[]): OwnResponse {
  const documents = problems.map((problem) => problem.getResponse() as ProblemDocument);
  const headers = retryAfter(problems);
  return {
    description: documents
      .map(({ code, title, detail }) => `- \`${code}\`: ${title}. ${detail}`)
      .join('\n'),
    ...(headers === undefined ? {} : { headers }),
    content: {
      'application/problem+json': {
        schema: { $ref: `#/components/schemas/${PROBLEM_SCHEMA_NAME}` },
        examples: Object.fromEntries(
          documents.map((value) => [value.code, { summary: value.title, value }]),
        ),
      },
    },
  };
}

function retryAfter(problems: readonly IdempotencyProblem[]): Headers | undefined {
  const seconds = problems.find(({ retryAfterSeconds }) => retryAfterSeconds !== undefined);
  if (seconds === undefined) return undefined;
  return {
    'Retry-After': {
      description: 'Seconds to wait before the next try; only where `retryable` is true.',
      schema: { type: 'integer', minimum: 1 },
      example: seconds.retryAfterSeconds,
    },
  };
}
