import { Injectable, type Type } from '@nestjs/common';
import { DiscoveryService, MetadataScanner, ModulesContainer } from '@nestjs/core';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import type { Handler } from '../../transports/http/http-route.js';
import { AckInterceptor } from '../../transports/message/deliveries/ack-interceptor.js';
import { markEvent } from '../../transports/message/deliveries/rabbitmq-delivery.js';
import type {
  RabbitMqChannel,
  RabbitMqMessage,
} from '../../transports/message/source/rabbitmq-channel.js';
import { isEventHandler, kindsOf, listensTo, patternsOf } from '../discovery/handler-kinds.js';
import { isProtected, nameOf, RouteRegistry } from './route-registry.js';

/** What a microservice's server of Nest says of itself; only RabbitMQ's has `noAck`. */
interface MicroserviceServer {
  readonly transportId?: unknown;
  readonly noAck?: unknown;
  listen: (callback: (error?: unknown, ...details: unknown[]) => void) => unknown;
  /** RabbitMQ's: takes a message from its channel. */
  handleMessage?: (message: RabbitMqMessage | null, channel: RabbitMqChannel) => unknown;
  /** Hands a message to the handlers of an event. */
  handleEvent?: (pattern: string, packet: unknown, context: MessageHolder) => unknown;
}

/** Nest's context of a RabbitMQ message. */
interface MessageHolder {
  getMessage(): RabbitMqMessage;
}

/** `Transport.RMQ` of `@nestjs/microservices`, which need not be there. */
const RABBITMQ = 5;

/**
 * Sees to it that no message is taken before it is certain that its handler can be protected. Nest starts the
 * microservices of a hybrid application before any provider hears of the start: hence a look when one begins to listen.
 */
@Injectable()
export class RabbitMqServers {
  constructor(
    containers: ModulesContainer,
    routes: RouteRegistry,
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
  ) {
    containers.getRpcTargetRegistry<MicroserviceServer>().subscribe((server) => {
      // A custom strategy may be anything.
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
   *
   * @throws {@link IdempotencyOptionsError} where the broker would be told wrongly what became of a message.
   */
  private protects({ transportId, noAck }: MicroserviceServer): boolean {
    if (transportId !== RABBITMQ) return false;
    const handlers = [...this.handlers()].filter(({ handler }) => listensTo(handler, RABBITMQ));
    if (!handlers.some(({ controller, handler }) => isProtected(controller, handler))) return false;
    if (noAck !== false) throw new IdempotencyOptionsError(NO_ACK);
    checkAcknowledgedOnce(handlers);
    return true;
  }

  private *handlers(): Generator<MessageHandler> {
    for (const { metatype } of this.discovery.getControllers()) {
      if (typeof metatype !== 'function') continue;
      const controller = metatype as Type;
      const prototype = controller.prototype as Record<string, Handler>;
      for (const name of this.scanner.getAllMethodNames(prototype)) {
        const handler = prototype[name];
        if (handler === undefined || !kindsOf(handler).includes('message')) continue;
        yield { controller, handler };
      }
    }
  }
}

/**
 * Has the layer hear from the first message on what the application says to the broker, guards and outer interceptors
 * included; and which messages Nest takes for events, which no context tells.
 */
function interceptAcks(server: MicroserviceServer): void {
  const handleMessage = server.handleMessage?.bind(server);
  const handleEvent = server.handleEvent?.bind(server);
  if (handleMessage === undefined || handleEvent === undefined) return;
  server.handleMessage = (message, channel) => {
    // `null` tells that the consumer was cancelled.
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
  'A microservice on RabbitMQ has "noAck": true, which is Nest\'s default: the broker forgets a message when it is sent, so that one whose consumer dies, or cannot reach its store, is lost. Set "noAck" to false in its options: @Idempotent() acknowledges each message once its outcome is stored.';

/** Nest calls all handlers of an event for one delivery, and a delivery is acknowledged once. */
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
        `${String(first)} and ${String(second)} handle the same event from RabbitMQ, one of them with @Idempotent(): they share one delivery, which can be acknowledged once only, whatever becomes of the other. Give each its own queue, in an application of its own, or call both from one handler.`,
      );
    }
  }
}
