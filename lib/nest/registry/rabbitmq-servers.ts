import { Injectable } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { canonicalJson } from '../../core/record/canonical-json.js';
import type { ConsumerStopReason } from '../../core/record/events.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { markEvent } from '../../transports/message/deliveries/delivery.js';
import { AckInterceptor } from '../../transports/message/deliveries/rabbitmq-delivery.js';
import type {
  RabbitMqChannel,
  RabbitMqMessage,
} from '../../transports/message/source/rpc-context.js';
import type { HandlerFacts } from '../discovery/handler-facts.js';
import { HostClasses } from './host-classes.js';
import { RouteResolver } from './route-resolver.js';

/** What is used of a microservice's server in Nest; only RabbitMQ's has `noAck` and `queue`. */
interface MicroserviceServer {
  readonly transportId?: unknown;
  readonly noAck?: unknown;
  readonly queue?: unknown;
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

/** Called with the name of a queue, of which this process gets no more messages, and the reason. */
export type ConsumerStopListener = (queue: string, reason: ConsumerStopReason) => void;

/** Checks handlers when a server begins to listen: in a hybrid application, before Nest's lifecycle hooks. */
@Injectable()
export class RabbitMqServers {
  private consumerStopped: ConsumerStopListener = () => undefined;

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
          if (this.protects(server)) this.intercept(server);
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
    const handlers = this.handlers();
    if (!handlers.some(({ isProtected }) => isProtected)) return false;
    if (noAck !== false) throw new IdempotencyOptionsError(NO_ACK);
    checkAcknowledgedOnce(handlers);
    return true;
  }

  /** Sets what reports that the broker ends a consumer, of which Nest says nothing. */
  reportStopsTo(listener: ConsumerStopListener): void {
    this.consumerStopped = listener;
  }

  private intercept(server: MicroserviceServer): void {
    const queue = typeof server.queue === 'string' ? server.queue : '';
    interceptAcks(server, (reason) => {
      this.consumerStopped(queue, reason);
    });
  }

  /** Those that listen to RabbitMQ, or to all transports. */
  private handlers(): HandlerFacts[] {
    return this.classes
      .controllers()
      .flatMap(({ methods }) => methods)
      .filter(({ kinds }) => kinds.includes('rpc'))
      .filter(({ transport }) => transport === undefined || transport === RABBITMQ);
  }
}

/** Intercepts acks from the first message on, also those of guards, and notes which messages are events for Nest. */
function interceptAcks(
  server: MicroserviceServer,
  consumerStopped: (reason: ConsumerStopReason) => void,
): void {
  const handleMessage = server.handleMessage?.bind(server);
  const handleEvent = server.handleEvent?.bind(server);
  if (handleMessage === undefined || handleEvent === undefined) return;
  const channelClosed = () => {
    consumerStopped('channel_closed');
  };
  server.handleMessage = (message, channel) => {
    // `null` is the broker's basic.cancel.
    if (message === null) consumerStopped('cancelled');
    else AckInterceptor.of(channel, channelClosed);
    return handleMessage(message, channel);
  };
  server.handleEvent = (pattern, packet, context) => {
    markEvent(context.getMessage());
    return handleEvent(pattern, packet, context);
  };
}

const NO_ACK =
  'A microservice on RabbitMQ has "noAck": true, Nest\'s default: the broker forgets a message once it is sent, and loses it if its consumer dies or cannot reach the store. Set "noAck" to false in its options: @Idempotent() acknowledges each message once its outcome is stored.';

/** Nest calls all handlers of an event for one delivery, which can be acknowledged once. */
function checkAcknowledgedOnce(handlers: readonly HandlerFacts[]): void {
  const known = new Map<string, HandlerFacts>();
  for (const one of handlers.filter(({ isEvent }) => isEvent)) {
    for (const pattern of one.patterns.map(textOf)) {
      const other = known.get(pattern);
      known.set(pattern, one);
      if (other === undefined || !(one.isProtected || other.isProtected)) continue;
      throw new IdempotencyOptionsError(
        `${other.name} and ${one.name} handle the same event from RabbitMQ, one of them with @Idempotent(). They share one delivery, which can be acknowledged only once. Give each its own queue in an application of its own, or call both from one handler.`,
      );
    }
  }
}

/** Equal patterns give equal texts. */
function textOf(pattern: unknown): string {
  return typeof pattern === 'object' && pattern !== null ? canonicalJson(pattern) : String(pattern);
}
