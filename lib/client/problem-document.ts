import { isRetryable, type IdempotencyProblem } from './errors.js';
import { textWithin } from './response-body.js';

/** A problem document has some hundred bytes. What is longer is the operation's own, and is not parsed. */
const MAX_BYTES = 65_536;

/**
 * The problem that the answer states, where it comes from the idempotency layer: known by its `code`, under any JSON
 * type, for servers, proxies and exception filters have types of their own. A document of the operation's is the
 * operation's answer and none of ours.
 */
export async function problemIn(response: Response): Promise<IdempotencyProblem | undefined> {
  if (response.status < 400 || !isJson(response.headers.get('content-type') ?? '')) {
    return undefined;
  }
  const document = parse(await textWithin(MAX_BYTES, response));
  const { code } = document;
  if (typeof code !== 'string' || !code.startsWith('idempotency_')) return undefined;
  return {
    code,
    status: response.status,
    retryable: typeof document.retryable === 'boolean' ? document.retryable : isRetryable(code),
    type: text(document.type, 'about:blank'),
    title: text(document.title, ''),
    detail: text(document.detail, ''),
  };
}

function isJson(contentType: string): boolean {
  const [type = ''] = contentType.split(';', 1);
  return /[/+]json$/i.test(type.trim());
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
