import type { Type } from '@nestjs/common';
import { ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { recoverableHandler } from '../call/call-recovery.js';
import { emissionsFormat } from '../call/outcome-format.js';
import { valueRoute, type ValueRoute } from '../call/value-route.js';
import type { ResolvedRequestOptions } from '../common/request-options.js';

interface GatewayMethod {
  readonly name: string;
  readonly length: number;
}

/** Nest's `WsParamtype` of `@Ack()`, which is part of the metadata's keys. */
const ACK_PARAMETER = '13:';

/** The index of the acknowledgement's callback in a method without parameter decorators. */
const ACK_POSITION = 2;

/**
 * @param isKeyNamed - the option `key.from` is a string, for this handler or its gateway.
 * @throws {@link IdempotencyOptionsError} for a handler that cannot be protected.
 */
export function socketRoute(
  gateway: Type,
  method: GatewayMethod,
  options: ResolvedRequestOptions,
  isKeyNamed: boolean,
): ValueRoute {
  const route = valueRoute(`${gateway.name}.${method.name}`, options);
  const { enabled } = route.options;
  if (enabled !== false && takesAck(gateway, method)) {
    throw new IdempotencyOptionsError(
      `${route.handler} takes the callback of the acknowledgement itself, with @Ack() or as its third parameter, so its response cannot be stored. Return the response instead, or remove @Idempotent().`,
    );
  }
  if (isKeyNamed) {
    throw new IdempotencyOptionsError(
      `The option "key" of ${route.handler} names a header, but WebSocket messages have no headers. Set it to a function, such as payloadField('orderId'), or omit it if the key is the payload's member "idempotencyKey".`,
    );
  }
  return Object.freeze(route);
}

function takesAck(gateway: Type, { name, length }: GatewayMethod): boolean {
  const parameters = Reflect.getMetadata(ROUTE_ARGS_METADATA, gateway, name) as object | undefined;
  return parameters === undefined
    ? length > ACK_POSITION
    : Object.keys(parameters).some((parameter) => parameter.startsWith(ACK_PARAMETER));
}

/** How a gateway handler's records are recovered without a message; `undefined` where `onTakeover` is not a function. */
export function recoverableSocket(route: ValueRoute): RecoverableOperation | undefined {
  return recoverableHandler(route, emissionsFormat(route.options.outcome.codec));
}
