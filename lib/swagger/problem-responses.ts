import { STATUS_HEADER } from '../transports/http/http-options.js';
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
import type { Headers, Parameter, Reference, Response, Schema } from './merge.js';
import { describeKey, describeRetries } from './route-text.js';

type ProblemClass = new (context: ProblemContext) => IdempotencyProblem;
type OwnResponse = Exclude<Response, Reference>;

/** The problem responses that a route's options allow, by status. */
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

/** The header fields that the library adds to the operation's own responses. */
export function responseHeaders({ options, protocol }: HttpRoute): Headers {
  const headers: Headers = {};
  if (options.storeBody) {
    headers[options.replayHeader] = {
      description:
        'Only on a replay: this is the stored response to the first request with the key.',
      schema: { type: 'string', enum: ['true'] },
    };
  }
  if (protocol.onStoreUnavailable === 'execute') {
    headers[STATUS_HEADER] = {
      description:
        'Only where the request ran without protection, because its outcome could not be stored: a retry may run again.',
      schema: { type: 'string', enum: ['unprotected'] },
    };
  }
  return headers;
}

/** A name that an application's own models hardly have. */
export const PROBLEM_SCHEMA_NAME = 'IdempotencyProblemDocument';

/** The schema of {@link ProblemDocument}. Codes are not enumerated: a new one must not break generated clients. */
export const PROBLEM_SCHEMA: Schema = {
  type: 'object',
  description: 'Why the request did not run, or did not run again (RFC 9457).',
  required: ['type', 'title', 'status', 'detail', 'code', 'retryable'],
  properties: {
    type: {
      type: 'string',
      format: 'uri',
      description: 'Identifies the problem type and leads to its page.',
    },
    title: { type: 'string', description: 'The same for every occurrence of a type.' },
    status: { type: 'integer', description: "The response's status." },
    detail: { type: 'string', description: 'What to do.' },
    code: { type: 'string', description: 'Stable, for programs to branch on.' },
    retryable: {
      type: 'boolean',
      description: 'Whether a retry of the same request with the same key may succeed.',
    },
  },
};

const EXAMPLE = '6f1b0d3e-8f0a-4a51-9a5c-2f2f6f0f7c11';
const UUID_LENGTH = 36;

type HeaderParameter = Exclude<Parameter, Reference>;

/** The header with the key; `undefined` if a function of the application finds the key. */
export function keyParameter(route: HttpRoute): HeaderParameter | undefined {
  const { key, required } = route.options;
  if (typeof key === 'function') return undefined;
  return {
    name: key,
    in: 'header',
    required,
    description: `${describeKey(route)}\n\n${describeRetries(route)}`,
    schema: keySchema(route),
  };
}

/** The schema of a key as a client should send it: bare, unless the syntax requires quotes. */
function keySchema({ options }: HttpRoute): NonNullable<HeaderParameter['schema']> {
  const { keySyntax, maxKeyLength } = options;
  switch (keySyntax) {
    case 'strict':
      return {
        type: 'string',
        // An escaped character counts as one, which `maxLength` cannot express.
        pattern: `^"([ !#-[\\]-~]|\\\\["\\\\]){1,${maxKeyLength}}"`,
        example: `"${EXAMPLE}"`,
      };
    case 'uuid':
      return {
        type: 'string',
        format: 'uuid',
        maxLength: Math.min(UUID_LENGTH, maxKeyLength),
        example: EXAMPLE,
      };
    case 'lenient':
      return { type: 'string', minLength: 1, maxLength: maxKeyLength, example: EXAMPLE };
    default:
      // No example: what a predicate accepts is unknown.
      return { type: 'string', minLength: 1, maxLength: maxKeyLength };
  }
}
