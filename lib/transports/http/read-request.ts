import { Logger, type ExecutionContext } from '@nestjs/common';
import type { ReceivedRequest } from '../../core/operation/operation-request.js';
import { ContentNotComparableError } from '../../core/record/canonical-json.js';
import type { Fingerprint } from '../../core/record/record.js';
import type { Scope } from '../../core/record/scope.js';
import { hasCode } from '../../core/errors/errors.js';
import { whenReady } from '../../core/util/maybe-async.js';
import { askKey, askOption, askOptionLater, isEnabled } from '../common/ask-option.js';
import { fieldLines } from '../common/header-fields.js';
import { keyInLines } from '../common/idempotency-key.js';
import { anonymousScope, principalOf, toScope } from '../common/scope.js';
import { contentOf, type PlatformRequest } from './content/request-content.js';
import type { HttpExchange } from './http-exchange.js';
import type { HttpRoute } from './http-route.js';
import { throwProblem } from './problem.js';

type PreparedRequest = ReceivedRequest | 'disabled' | 'no_key' | 'no_caller';

/**
 * Reads what identifies the operation's request, or returns why the options let the request run unprotected. Checks
 * in this order: key missing, key malformed, caller unknown, content not comparable.
 * @throws {@link IdempotencyProblem} if a check fails.
 */
export function readRequest(
  context: ExecutionContext,
  exchange: HttpExchange,
  route: HttpRoute,
): PreparedRequest | Promise<PreparedRequest> {
  const { operation, options } = route;
  if (options.enabled !== true && !isEnabled(context, operation, options)) return 'disabled';
  // A marker set by middleware or `@Header()` would also mark rejections.
  if (!exchange.rawResponse.headersSent) exchange.removeHeader(options.http.replayHeader);
  const key = keyOf(context, exchange, route);
  if (key === undefined) return 'no_key';
  // Not by `await`, which costs each request another promise.
  const goOn = (known: Scope | undefined) => {
    const scope =
      known ??
      anonymousScope(options.caller.anonymous, () =>
        throwProblem(exchange, 'idempotency_caller_unknown', route.problems),
      );
    if (scope === undefined) return 'no_caller';
    const fingerprint = fingerprintOf(context, exchange, route);
    return fingerprint instanceof Promise
      ? fingerprint.then((found) => receivedRequest(exchange, route, scope, key, found))
      : receivedRequest(exchange, route, scope, key, fingerprint);
  };
  const known = requestScope(context, exchange.request, route);
  return known instanceof Promise ? known.then(goOn) : goOn(known);
}

function receivedRequest(
  exchange: HttpExchange,
  { options, operation }: HttpRoute,
  scope: Scope,
  key: string,
  fingerprint: Fingerprint,
): ReceivedRequest {
  const waiting = options.duplicates.mode === 'wait' ? waitOptionsOf(exchange) : undefined;
  return {
    fingerprint,
    operation,
    transport: 'http',
    scope,
    keyOperation: options.key.uniqueFor === 'operation' ? operation : undefined,
    key,
    options,
    waitAtMostMs: waiting?.waitAtMostMs,
    takesStreams: true,
    clientSignal: waiting?.clientSignal,
  };
}

/** How long the client waits for an outcome; only needed if duplicates wait. */
function waitOptionsOf({ request, rawHeaders, rawResponse }: HttpExchange) {
  const disconnect = new AbortController();
  rawResponse.once('close', () => {
    disconnect.abort();
  });
  return {
    waitAtMostMs: preferredWaitMs(fieldLines(rawHeaders, request.headers, 'prefer')),
    clientSignal: disconnect.signal,
  };
}

function keyOf(
  context: ExecutionContext,
  exchange: HttpExchange,
  route: HttpRoute,
): string | undefined {
  const { options, keyField, operation, problems } = route;
  const { syntax, maxLength } = options.key;
  const read = (name: string) =>
    keyInLines(fieldLines(exchange.rawHeaders, exchange.request.headers, name), syntax, maxLength);
  let key: string | false | undefined;
  if (keyField === undefined) key = chosenKey(context, exchange, route);
  else if (typeof syntax !== 'function') key = read(keyField);
  else key = askOption('key.syntax', operation, () => read(keyField));
  if (key === false) return throwProblem(exchange, 'idempotency_key_invalid', problems);
  if (key === undefined && options.key.required) {
    return throwProblem(exchange, 'idempotency_key_missing', problems);
  }
  return key;
}

function chosenKey(
  context: ExecutionContext,
  exchange: HttpExchange,
  { options, operation, problems }: HttpRoute,
): string | false | undefined {
  const { from, maxLength } = options.key;
  let chosen: string | undefined;
  try {
    chosen = typeof from === 'function' ? askKey(from, context, operation) : undefined;
  } catch (error) {
    // From payloadField() and payloadKey().
    if (hasCode(error, 'idempotency_key_invalid')) return false;
    return rejectContent(error, operation, exchange, problems);
  }
  if (chosen === undefined) return undefined;
  if (chosen === '' || chosen.length > maxLength) return false;
  return chosen;
}

function fingerprintOf(
  context: ExecutionContext,
  exchange: HttpExchange,
  { fingerprint, operation, problems }: HttpRoute,
): Fingerprint | Promise<Fingerprint> {
  const rejectContentError = (error: unknown) =>
    rejectContent(error, operation, exchange, problems);
  try {
    const found = fingerprint(contentOf(exchange.request), context);
    return found instanceof Promise ? found.catch(rejectContentError) : found;
  } catch (error) {
    return rejectContentError(error);
  }
}

/** @throws other errors unchanged. */
function rejectContent(
  error: unknown,
  operation: string,
  exchange: HttpExchange,
  problems: HttpRoute['problems'],
): never {
  if (!(error instanceof ContentNotComparableError)) throw error;
  warnOnce(operation, error);
  return throwProblem(exchange, 'idempotency_content_invalid', problems);
}

const logger = new Logger('Idempotency');
const warned = new Set<string>();

/** Logs the remedy for the service's operators: often the set-up is wrong, not the client. */
function warnOnce(operation: string, { message }: Error): void {
  const line = `${operation}: ${message}`;
  if (warned.has(line)) return;
  warned.add(line);
  logger.warn(line);
}

function requestScope(
  context: ExecutionContext,
  request: PlatformRequest,
  { operation, options: { caller } }: HttpRoute,
): Scope | undefined | Promise<Scope | undefined> {
  const { scope } = caller;
  return scope === undefined
    ? principalOf(request.user, operation)
    : whenReady(
        askOptionLater('caller.scope', operation, () => scope(context)),
        (scope) => toScope(scope, operation),
      );
}

/** A preference with its parameters. A comma in a quoted string does not end it. Never backtracks. */
const PREFERENCE = /(?:[^,"]|"(?:[^"\\]|\\.?)*(?:"|$))+/g;

/** `wait` with its value in seconds, bare or quoted, and any parameters. */
const WAIT = /^\s*wait\s*=\s*(?:(\d+)|"(\d+)")\s*(?:;|$)/i;

const IS_WAIT = /^\s*wait\s*(?:[=;]|$)/i;

/**
 * Milliseconds that the client is willing to wait, from `Prefer: wait=N` (RFC 7240 §4.3), N in seconds; `undefined`
 * without a preference. Only the first `wait` counts; a malformed one is ignored (§2).
 */
export function preferredWaitMs(lines: readonly string[]): number | undefined {
  if (lines.length === 0) return undefined;
  const wait = lines
    .join(',')
    .match(PREFERENCE)
    ?.find((preference) => IS_WAIT.test(preference));
  const [, bare, quoted] = WAIT.exec(wait ?? '') ?? [];
  const seconds = bare ?? quoted;
  return seconds === undefined ? undefined : Number(seconds) * 1_000;
}
