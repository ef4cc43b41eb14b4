import type { ExecutionContext } from '@nestjs/common';
import type { Scope } from '../../core/record/record-key.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { atOnce } from '../../core/util/maybe-async.js';
import { callerUnknown } from '../call/rejection-errors.js';
import { checkedKey } from '../call/value-route.js';
import { askOption } from '../common/ask-option.js';
import type { ResolvedRequestOptions, ScopeResult } from '../common/request-options.js';
import { toScope } from '../common/scope.js';
import { defaultMessageKey } from './keys/message-id.js';
import type { MessageRoute } from './message-route.js';

const KEY_REMEDY =
  'Let the publisher give each message an id (RabbitMQ: "messageId", NATS: "Nats-Msg-Id") or a header "Idempotency-Key"; or say by the option "key" where it is: messageHeader(…), payloadField(…), payloadKey({ … }) or a function of the context; or set "required" to false, to have such messages handled unprotected.';

const SCOPE_REMEDY =
  'The function given as the option "scope" has to answer with all parts, such as the tenant; none at all is fine, too.';

/**
 * The message's key, or `undefined` where it has none and needs none.
 *
 * @throws {@link OperationRejectedError} where it has none, or one that cannot be used.
 */
export function messageKey(context: ExecutionContext, route: MessageRoute): string | undefined {
  const { operation, options } = route;
  const { key } = options;
  const chosen =
    typeof key === 'function'
      ? askOption('key', operation, () => atOnce('key', key(context), operation))
      : defaultMessageKey(key)(context);
  return checkedKey(chosen, route, KEY_REMEDY);
}

/**
 * Whose key it is: the consumer's, and the tenant's where the option `scope` names one.
 *
 * @throws {@link OperationRejectedError} where a part of it is missing.
 */
export async function messageScope(
  context: ExecutionContext,
  { consumer, operation, options }: MessageRoute,
): Promise<Scope> {
  const result = await tenantOf(context, operation, options.scope);
  const isNone = Array.isArray(result) && result.length === 0;
  const parts = isNone ? [] : toScope(result, operation);
  if (parts === undefined) throw callerUnknown(operation, SCOPE_REMEDY);
  return [consumer, ...parts];
}

async function tenantOf(
  context: ExecutionContext,
  operation: string,
  scope: ResolvedRequestOptions['scope'],
): Promise<ScopeResult> {
  try {
    return scope === undefined ? [] : await scope(context);
  } catch (cause) {
    // Likely the module's, which was written for requests: to leave it out could mix two tenants' keys.
    throw new IdempotencyOptionsError(
      `The function given as the option "scope" failed for a message of ${operation}. Give that handler a "scope" of its own, which reads the tenant from the message: @Idempotent({ scope: (context) => context.switchToRpc().getData().tenant }), or () => [] where there are no tenants.`,
      { cause },
    );
  }
}
