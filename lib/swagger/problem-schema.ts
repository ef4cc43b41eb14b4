import type { Schema } from './open-api.js';

/** A name that an application's own models hardly have. */
export const PROBLEM_SCHEMA_NAME = 'IdempotencyProblemDocument';

/** Of {@link ProblemDocument}. Codes are not enumerated: a new one must not break a generated client. */
export const PROBLEM_SCHEMA: Schema = {
  type: 'object',
  description: 'Why the request was not run, or not run again (RFC 9457).',
  required: ['type', 'title', 'status', 'detail', 'code', 'retryable'],
  properties: {
    type: {
      type: 'string',
      format: 'uri',
      description: 'Names the problem, and leads to its page.',
    },
    title: { type: 'string', description: 'The same for every occurrence of a type.' },
    status: { type: 'integer', description: "The answer's status." },
    detail: { type: 'string', description: 'What to do.' },
    code: { type: 'string', description: 'Stable, for programs to branch on.' },
    retryable: {
      type: 'boolean',
      description: 'Whether the same request with the same key may be answered otherwise later.',
    },
  },
};
