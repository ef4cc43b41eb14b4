import type { IdempotencyProblem } from './errors.js';

const PROBLEM_JSON = /^application\/problem\+json\s*(?:;|$)/i;

/**
 * The problem that the answer states, where it comes from the idempotency layer. A problem document of the
 * operation's own is the operation's answer and none of ours.
 */
export async function problemIn(response: Response): Promise<IdempotencyProblem | undefined> {
  if (response.status < 400) return undefined;
  if (!PROBLEM_JSON.test(response.headers.get('content-type') ?? '')) return undefined;
  const document = parse(await response.clone().text());
  const { code } = document;
  if (typeof code !== 'string' || !code.startsWith('idempotency_')) return undefined;
  return {
    code,
    status: response.status,
    retryable: document.retryable === true,
    type: text(document.type, 'about:blank'),
    title: text(document.title, ''),
    detail: text(document.detail, ''),
  };
}

function parse(json: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(json)) as Record<string, unknown>;
  } catch {
    return {};
  }
}

function text(member: unknown, absent: string): string {
  return typeof member === 'string' ? member : absent;
}
