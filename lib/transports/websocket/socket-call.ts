import type { ExecutionContext } from '@nestjs/common';
import { canonicalJson } from '../../core/record/canonical-json.js';
import { isObject } from '../../core/options/option-checks.js';
import type { Bypass, Call } from '../call/call.js';
import { emissionsFormat, type ThrownValues } from '../call/outcome-format.js';
import { callerScope, checkedKey, type ValueRoute } from '../call/value-route.js';
import { askKey, isEnabled } from '../common/ask-option.js';
import { asKeyText } from '../common/idempotency-key.js';
import { misnamedKey } from '../common/misnamed-key.js';
import { payloadContent } from '../common/payload-fingerprint.js';
import type { RequestContent } from '../common/request-content.js';

/** The member of the payload that is the key, unless the option `key.from` is a function. */
const KEY_MEMBER = 'idempotencyKey';

const KEY_REMEDY = `Send one key per intended operation, and the same key with every retry: as the payload's member "${KEY_MEMBER}", unless the gateway's option "key" reads it from elsewhere.`;

const CALLER_REMEDY =
  'Let a guard or a middleware set client.user, client.data.user or client.request.user, with an "id" or a "sub"; or set the option "caller.scope"; or allow such callers with the option "caller.anonymous".';

/**
 * The call of a message, or why the handler's options let it run unprotected. Checks in HTTP's order.
 * @param disconnect - aborted when the client disconnects.
 * @throws {@link OperationRejectedError}, {@link ContentNotComparableError} where a check fails.
 */
export async function socketCall(
  context: ExecutionContext,
  route: ValueRoute,
  disconnect: AbortSignal,
  thrown: ThrownValues,
): Promise<Call | Bypass> {
  const { operation, options } = route;
  const { keep, codec } = options.outcome;
  if (!isEnabled(context, operation, options)) return 'disabled';
  const key = keyOf(context, route);
  if (key === undefined) return 'no_key';
  const scope = await callerScope(context, route, () => userOf(context), CALLER_REMEDY);
  if (scope === undefined) return 'no_caller';
  return {
    operation,
    transport: 'websocket',
    keyOperation: options.key.uniqueFor === 'operation' ? operation : undefined,
    key,
    scope,
    fingerprint: route.fingerprint(contentOf(context, route), context),
    keep,
    format: emissionsFormat(codec, thrown),
    options,
    clientSignal: disconnect,
    handler: context.getHandler(),
  };
}

function keyOf(context: ExecutionContext, route: ValueRoute): string | undefined {
  const { operation, options } = route;
  const { from } = options.key;
  const chosen =
    typeof from === 'function' ? askKey(from, context, operation) : keyMember(payloadOf(context));
  return checkedKey(chosen, route, KEY_REMEDY);
}

/** The member of a payload that is probably the key under another name. */
export function misnamedIn(context: ExecutionContext, { options }: ValueRoute): string | undefined {
  const payload = payloadOf(context);
  if (typeof options.key.from === 'function' || !isObject(payload)) return undefined;
  return misnamedKey(Object.keys(payload), KEY_MEMBER);
}

function keyMember(payload: unknown): unknown {
  return asKeyText(isObject(payload) ? payload[KEY_MEMBER] : undefined) ?? undefined;
}

function contentOf(context: ExecutionContext, { options }: ValueRoute): RequestContent {
  const pattern: unknown = context.switchToWs().getPattern();
  const payload = payloadOf(context);
  return payloadContent(
    typeof pattern === 'string' ? pattern : canonicalJson(pattern),
    typeof options.key.from === 'function' ? payload : withoutKey(payload),
  );
}

/** A key as a string and as a number is the same, so it must not make the content differ. */
function withoutKey(payload: unknown): unknown {
  if (!isObject(payload) || !(KEY_MEMBER in payload)) return payload;
  const { [KEY_MEMBER]: _, ...content } = payload;
  return content;
}

function payloadOf(context: ExecutionContext): unknown {
  return context.switchToWs().getData();
}

/** Where applications store a connection's user, by shape: it is of socket.io, ws or another adapter. */
interface SocketClient {
  readonly user?: unknown;
  readonly data?: { readonly user?: unknown } | null;
  readonly request?: { readonly user?: unknown } | null;
}

/**
 * The authenticated user: the first of `client.user` (guards, also Passport's), `client.data.user` (socket.io's place for
 * a connection's data) and `client.request.user` (the handshake's session).
 */
function userOf(context: ExecutionContext): unknown {
  const { user, data, request } = context.switchToWs().getClient<SocketClient>();
  return user ?? data?.user ?? request?.user;
}
