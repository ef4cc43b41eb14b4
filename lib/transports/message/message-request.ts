import type { ExecutionContext } from '@nestjs/common';
import type { Scope } from '../../core/record/scope.js';
import { IdempotencyOptionsError, rejectionError } from '../../core/errors/errors.js';
import { checkedKey } from '../call/value-route.js';
import { askKey } from '../common/ask-option.js';
import type { ResolvedRequestOptions, ScopeResult } from '../common/request-options.js';
import { toScope } from '../common/scope.js';
import { misnamedKey } from '../common/misnamed-key.js';
import { defaultMessageKey, headerNames } from './keys/message-id.js';
import type { MessageRoute } from './message-route.js';
import { rpcSource } from './source/rpc-context.js';

const KEY_REMEDY =
  'Let the publisher set an id (RabbitMQ: "messageId", NATS: "Nats-Msg-Id") or a header "Idempotency-Key"; or set the option "key.from" to a path ({ payload: "order.id" }), messageHeader(…), payloadKey({ … }) or a function of the context; or set "key.required" to false to handle such messages unprotected.';

const SCOPE_REMEDY =
  'The function given as the option "caller.scope" must return all parts, such as the tenant, or [] for none.';

/** The message's key, if any. @throws {@link OperationRejectedError} for a missing or invalid key. */
export function messageKey(context: ExecutionContext, route: MessageRoute): string | undefined {
  const { operation, options } = route;
  const { from } = options.key;
  const chosen =
    typeof from === 'function'
      ? askKey(from, context, operation)
      : defaultMessageKey(from)(context);
  return checkedKey(chosen, route, KEY_REMEDY);
}

/** The header of a message that probably has the key under another name. */
export function misnamedIn(
  context: ExecutionContext,
  { options }: MessageRoute,
): string | undefined {
  const { from } = options.key;
  if (typeof from === 'function') return undefined;
  return misnamedKey(headerNames(rpcSource(context)), from);
}

/** The consumer, and the tenant of `caller.scope`. @throws {@link OperationRejectedError} if one is missing. */
export async function messageScope(
  context: ExecutionContext,
  { consumer, operation, options }: MessageRoute,
): Promise<Scope> {
  const result = await tenantOf(context, operation, options.caller.scope);
  const parts = toScope(result, operation, 'caller.scope', true);
  if (parts === undefined) {
    throw rejectionError('idempotency_caller_unknown', { operation, remedy: SCOPE_REMEDY });
  }
  return [consumer, ...parts];
}

async function tenantOf(
  context: ExecutionContext,
  operation: string,
  scope: ResolvedRequestOptions['caller']['scope'],
): Promise<ScopeResult> {
  try {
    return scope === undefined ? [] : await scope(context);
  } catch (cause) {
    // Probably the module's, which reads HTTP requests. Without a scope, two tenants' keys could mix.
    throw new IdempotencyOptionsError(
      `The function given as the option "caller.scope" failed for a message of ${operation}. Give the handler a "caller.scope" of its own that reads the message: @Idempotent({ caller: { scope: (context) => context.switchToRpc().getData().tenant } }), or () => [] if there are no tenants. For all handlers, give the module one function for each type of context: caller: { scope: { http: …, rpc: … } }.`,
      { cause },
    );
  }
}
