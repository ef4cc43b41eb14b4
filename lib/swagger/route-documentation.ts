import { keepResponses } from '../core/operation/outcome-policy.js';
import { REJECTIONS, type RejectionCode } from '../core/errors/rejections.js';
import { STATUS_HEADER } from '../transports/http/http-options.js';
import type { HttpRoute } from '../transports/http/http-route.js';
import { IdempotencyProblem, type ProblemDocument } from '../transports/http/problem.js';
import type { Headers, Own, Parameter, Response, Schema } from './merge.js';

/** Whether the route's outcomes are stored in another form, which a process may be unable to read. */
function isPacked({ options: { outcome, secrets } }: HttpRoute): boolean {
  return outcome.compression !== false || secrets !== undefined;
}

/** When a problem can occur on a route. Those that are not listed always can. */
const OCCURRENCE: Partial<Record<RejectionCode, (route: HttpRoute) => boolean>> = {
  idempotency_key_missing: ({ options }) => options.key.required,
  idempotency_caller_unknown: ({ options }) => options.caller.anonymous === 'reject',
  idempotency_content_invalid: ({ options }) => options.fingerprint !== false,
  idempotency_outcome_unknown: ({ options }) => options.lease.onTakeover === 'reject',
  idempotency_outcome_unreadable: isPacked,
  idempotency_outcome_unavailable: isPacked,
  // Another operation under the principal's key may compare.
  idempotency_key_reused: ({ options }) =>
    options.fingerprint !== false || options.key.uniqueFor === 'principal',
  idempotency_store_unavailable: ({ options: { storeErrors } }) =>
    storeErrors.whenUnavailable === 'reject' || storeErrors.whenNotSaved === 'error',
  idempotency_transaction_conflict: ({ options }) => options.transaction !== false,
  idempotency_too_many_attempts: ({ options }) =>
    options.limits?.maxAttemptsPerCaller !== undefined,
  // A mistake of the service, which no client has to handle.
  idempotency_options_invalid: () => false,
};

/** The problem responses that a route's options allow, by status. */
export function problemResponses(route: HttpRoute): Record<string, Own<Response>> {
  const byStatus: Record<string, IdempotencyProblem[] | undefined> = {};
  for (const code of Object.keys(REJECTIONS) as RejectionCode[]) {
    if (OCCURRENCE[code]?.(route) === false) continue;
    const problem = IdempotencyProblem.of(code, route.problems);
    (byStatus[problem.getStatus()] ??= []).push(problem);
  }
  return Object.fromEntries(
    Object.entries(byStatus).map(([status, problems = []]) => [status, responseOf(problems)]),
  );
}

function responseOf(problems: readonly IdempotencyProblem[]): Own<Response> {
  const documents = problems.map((problem) => problem.getResponse() as ProblemDocument);
  const seconds = problems.find(({ retryable }) => retryable)?.retryAfterSeconds;
  const retryAfter = {
    description: 'Seconds to wait before the next try; only where `retryable` is true.',
    schema: { type: 'integer' as const, minimum: 1 },
    example: seconds,
  };
  return {
    description: documents
      .map(({ code, title, detail }) => `- \`${code}\`: ${title}. ${detail}`)
      .join('\n'),
    ...(seconds !== undefined && { headers: { 'Retry-After': retryAfter } }),
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

/** The header fields that the library adds to the operation's own responses. */
export function responseHeaders({ options }: HttpRoute): Headers {
  const header = (value: string, description: string) => ({
    description,
    schema: { type: 'string' as const, enum: [value] },
  });
  return {
    ...(options.outcome.storeBody && {
      [options.http.replayHeader]: header(
        'true',
        'Only on a replay: this is the stored response to the first request with the key.',
      ),
    }),
    ...(options.storeErrors.whenUnavailable === 'execute' && {
      [STATUS_HEADER]: header(
        'unprotected',
        'Only where the request ran without protection, because its outcome could not be stored: a retry may run again.',
      ),
    }),
  };
}

/** The header with the key; `undefined` if a path or a function of the application finds the key. */
export function keyParameter(route: HttpRoute): Own<Parameter> | undefined {
  const { key, caller } = route.options;
  const { from: name, required } = key;
  if (typeof name === 'function') return undefined;
  const { form, schema } = keyForm(route);
  const sentences = [
    'A key that is new for every intended operation, and the same on every retry of it.',
    form,
    required
      ? 'A request without it is rejected with 400.'
      : 'A request without it is not protected: it runs every time it is sent.',
    ...(caller.anonymous === 'ignore'
      ? ['Requests of unauthenticated callers are not protected either.']
      : []),
  ];
  const description = `${sentences.join(' ')}\n\n${describeRetries(route)}`;
  return { name, in: 'header', required, description, schema };
}

const EXAMPLE = '6f1b0d3e-8f0a-4a51-9a5c-2f2f6f0f7c11';

/** What a key looks like, and the schema of one as a client should send it: bare, unless the syntax requires quotes. */
function keyForm({ options }: HttpRoute): {
  form: string;
  schema: Schema;
} {
  const { syntax, maxLength: max } = options.key;
  switch (syntax) {
    case 'strict':
      return {
        form: `A structured-field String (RFC 9651): up to ${max} printable ASCII characters in double quotes.`,
        schema: {
          type: 'string',
          // An escaped character counts as one, which `maxLength` cannot express.
          pattern: `^"([ !#-[\\]-~]|\\\\["\\\\]){1,${max}}"`,
          example: `"${EXAMPLE}"`,
        },
      };
    case 'uuid': {
      const maxLength = Math.min(EXAMPLE.length, max);
      return {
        form: 'A UUID, bare or in double quotes, which is the same key.',
        schema: { type: 'string', format: 'uuid', maxLength, example: EXAMPLE },
      };
    }
    default: {
      const form = `Up to ${max} printable ASCII characters, bare or in double quotes, which is the same key. A key with a space, comma, semicolon or backslash must be in quotes.`;
      const schema: Schema = { type: 'string', minLength: 1, maxLength: max };
      if (syntax === 'lenient') return { form, schema: { ...schema, example: EXAMPLE } };
      // No example: what a predicate accepts is unknown.
      return {
        form: `${form} Keys of another form than the API expects are rejected with 400.`,
        schema,
      };
    }
  }
}

/** What happens to retries and duplicates, and for how long (contract C82b). */
export function describeRetries({ options }: HttpRoute): string {
  const { keep, retention: retentionMs, bodyRetention: bodyMs, storeBody } = options.outcome;
  const { mode, timeout: timeoutMs } = options.duplicates;
  const period =
    typeof retentionMs === 'function'
      ? 'For a time that depends on the first response'
      : `For at least ${formatDuration(retentionMs)} after the first response`;
  const isShorter = bodyMs !== undefined && bodyMs !== retentionMs;
  const after = isShorter
    ? `, for ${formatDuration(bodyMs)}; after that it gets 409, because the response is no longer kept,`
    : ',';
  const sentences = [
    storeBody
      ? `${period}, a retry gets the same response, marked \`${options.http.replayHeader}: true\`${after} and does not run again; later the key counts as new.`
      : `${period}, a retry gets 409, because the response is not stored, and does not run again; later the key counts as new.`,
    keep === keepResponses
      ? 'A response that is not kept, such as a 5xx, leaves the key free: a retry runs again.'
      : 'A response that the API does not keep leaves the key free: a retry runs again.',
    mode === 'wait'
      ? `A duplicate of a request in progress waits for its response, up to ${formatDuration(timeoutMs)}, and then gets 409.`
      : 'A duplicate of a request in progress gets 409.',
  ];
  if (options.fingerprint !== false) {
    const which = options.key.uniqueFor === 'principal' ? ', even to another operation,' : '';
    sentences.push(`The same key with a different request${which} is rejected with 422.`);
  }
  return sentences.join(' ');
}

const UNITS: readonly (readonly [name: string, milliseconds: number])[] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
];

/** Milliseconds in the largest unit that holds them exactly; a single day as 24 hours. */
export function formatDuration(milliseconds: number): string {
  const [name, length] = UNITS.find(
    ([unit, one]) => milliseconds % one === 0 && (unit !== 'day' || milliseconds > one),
  ) ?? ['millisecond', 1];
  const count = milliseconds / length;
  return count === 1 ? `1 ${name}` : `${count} ${name}s`;
}
