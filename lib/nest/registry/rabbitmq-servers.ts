import { Injectable, type Type } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { markEvent } from '../../transports/message/deliveries/delivery.js';
import { AckInterceptor } from '../../transports/message/deliveries/rabbitmq-delivery.js';
import type {
  RabbitMqChannel,
  RabbitMqMessage,
} from '../../transports/message/source/rpc-context.js';
import { isEventHandler, kindsOf, listensTo, patternsOf } from '../discovery/handler-kinds.js';
import type { Handler } from '../discovery/idempotent.metadata.js';
import { handlersOf, HostClasses, isProtected, nameOf } from './host-classes.js';
import { RouteResolver } from './route-resolver.js';

/** The public members of a microservice's server in Nest; only RabbitMQ's has `noAck`. */
interface MicroserviceServer {
  readonly transportId?: unknown;
  readonly noAck?: unknown;
  listen: (callback: (error?: unknown, ...details: unknown[]) => void) => unknown;
  /** Of RabbitMQ: receives a message from its channel. */
  handleMessage?: (message: RabbitMqMessage | null, channel: RabbitMqChannel) => unknown;
  /** Passes a message to the handlers of an event. */
  handleEvent?: (pattern: string, packet: unknown, context: MessageHolder) => unknown;
}

interface MessageHolder {
  getMessage(): RabbitMqMessage;
}

/** `Transport.RMQ` of `@nestjs/microservices`, which need not be installed. */
const RABBITMQ = 5;

/** Checks handlers when a server begins to listen: in a hybrid application, before Nest's lifecycle hooks. */
@Injectable()
export class RabbitMqServers {
  constructor(
    containers: ModulesContainer,
    routes: RouteResolver,
    private readonly classes: HostClasses,
  ) {
    containers.getRpcTargetRegistry<MicroserviceServer>().subscribe((server) => {
      // A custom strategy may lack it.
      if (typeof server.listen !== 'function') return;
      const listen = server.listen.bind(server);
      server.listen = (callback) => {
        try {
          routes.resolveAll();
          if (this.protects(server)) interceptAcks(server);
        } catch (error) {
          callback(error);
          return undefined;
        }
        return listen(callback);
      };
    });
  }

  /**
   * Whether a server of RabbitMQ has messages for protected handlers.
   * @throws {@link IdempotencyOptionsError} if messages would be acknowledged wrongly.
   */
  private protects({ transportId, noAck }: MicroserviceServer): boolean {
    if (transportId !== RABBITMQ) return false;
    const handlers = this.handlers().filter(({ handler }) => listensTo(handler, RABBITMQ));
    if (!handlers.some(({ controller, handler }) => isProtected(controller, handler))) return false;
    if (noAck !== false) throw new IdempotencyOptionsError(NO_ACK);
    checkAcknowledgedOnce(handlers);
    return true;
  }

  private handlers(): MessageHandler[] {
    return this.classes.controllers().flatMap((host) =>
      handlersOf(host)
        .filter((handler) => kindsOf(handler).includes('rpc'))
        .map((handler) => ({ controller: host.type, handler })),
    );
  }
}

/** Intercepts acks from the first message on, also those of guards, and notes which messages are events for Nest. */
function interceptAcks(server: MicroserviceServer): void {
  const handleMessage = server.handleMessage?.bind(server);
  const handleEvent = server.handleEvent?.bind(server);
  if (handleMessage === undefined || handleEvent === undefined) return;
  server.handleMessage = (message, channel) => {
    // `null` means that the consumer was cancelled.
    if (message !== null) AckInterceptor.of(channel);
    return handleMessage(message, channel);
  };
  server.handleEvent = (pattern, packet, context) => {
    markEvent(context.getMessage());
    return handleEvent(pattern, packet, context);
  };
}

interface MessageHandler {
  readonly controller: Type;
  readonly handler: Handler;
}

const NO_ACK =
  'A microservice on RabbitMQ has "noAck": true, Nest\'s default: the broker forgets a message once it is sent, and loses it if its consumer dies or cannot reach the store. Set "noAck" to false in its options: @Idempotent() acknowledges each message once its outcome is stored.';

/** Nest calls all handlers of an event for one delivery, which can be acknowledged once. */
function checkAcknowledgedOnce(handlers: readonly MessageHandler[]): void {
  const known = new Map<string, MessageHandler>();
  for (const one of handlers.filter(({ handler }) => isEventHandler(handler))) {
    for (const pattern of patternsOf(one.handler)) {
      const other = known.get(pattern);
      known.set(pattern, one);
      if (other === undefined) continue;
      const pair = [other, one];
      if (!pair.some(({ controller, handler }) => isProtected(controller, handler))) continue;
      const [first, second] = pair.map(({ controller, handler }) => nameOf(controller, handler));
      throw new IdempotencyOptionsError(
        `${String(first)} and ${String(second)} handle the same event from RabbitMQ, one of them with @Idempotent(). They share one delivery, which can be acknowledged only once. Give each its own queue in an application of its own, or call both from one handler.`,
      );
    }
  }
}
