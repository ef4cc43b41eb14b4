import type { Type } from '@nestjs/common';
import { ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { recoverableHandler } from '../call/call-recovery.js';
import { emissionsFormat } from '../call/outcome-format.js';
import { valueRoute, type ValueRoute, type ValueRouteOptions } from '../call/value-route.js';

/** A method of a gateway as far as it is looked at. */
interface GatewayMethod {
  readonly name: string;
  readonly length: number;
}

/** Nest's `WsParamtype` of `@Ack()`, which is part of the metadata's keys. */
const ACK_PARAMETER = '13:';

/** Where the acknowledgement's callback stands among the arguments of a method whose parameters have no decorators. */
const ACK_POSITION = 2;

/**
 * Reads what Nest knows about a gateway's handler.
 *
 * @param isKeyNamed - the option `key` was given as a text, for this handler or its gateway.
 * @throws {@link IdempotencyOptionsError} for a handler that cannot be protected.
 */
export function socketRoute(
  gateway: Type,
  method: GatewayMethod,
  options: ValueRouteOptions,
  isKeyNamed: boolean,
): ValueRoute {
  const route = valueRoute(`${gateway.name}.${method.name}`, options);
  const { enabled } = route.options;
  if (enabled !== false && takesAck(gateway, method)) {
    throw new IdempotencyOptionsError(
      `${route.handler} takes the callback of the acknowledgement itself, by @Ack() or as its third parameter, so that nobody sees what it answers, and nothing could be replayed. Let it return its answer, or remove @Idempotent() from it.`,
    );
  }
  if (isKeyNamed) {
    throw new IdempotencyOptionsError(
      `The option "key" of ${route.handler} is a text, which names a header, and messages of WebSockets have none. Give a function, such as payloadField('orderId'), or leave it out where the key is the payload's member "idempotencyKey".`,
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

/** How records of a gateway's handler are recovered without a message; `undefined` where it has no function for it. */
export function recoverableSocket(route: ValueRoute): RecoverableOperation | undefined {
  return recoverableHandler(route, emissionsFormat(route.codec));
}
