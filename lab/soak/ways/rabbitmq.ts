import { randomUUID } from 'node:crypto';
import type { EventEmitter } from 'node:events';
import { Controller, UseInterceptors, type ExecutionContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  Ctx,
  EventPattern,
  Payload,
  Transport,
  type MicroserviceOptions,
  type RmqContext,
} from '@nestjs/microservices';
import { connect } from 'amqplib';
import { Idempotent } from 'nestjs-idempotency';
import { finalize } from 'rxjs';
import { until } from '../../../test/support/waiting/until.js';
import { queueLength } from '../../../test/support/rabbitmq/rabbitmq-queues.js';
import { TcpRelay } from '../../../test/support/servers/tcp-relay.js';
import { addOperations, inner, optionsOf, outer, work, type Order } from '../operations.js';
import type { Way, WaySettings } from '../setup.js';
import { appModule } from './start.js';

const QUEUE = 'soak';
const PREFETCH = 100;
const SETTLED_WITHIN_MS = 60_000;

@Controller()
class OrdersConsumer {}

addOperations(
  OrdersConsumer,
  (kind) =>
    ({ amount }: Order) =>
      work({ kind, amount }),
  (kind) => {
    const { caller: _, ...options } = optionsOf(kind);
    return [
      [Payload(), Ctx()],
      Idempotent({
        ...options,
        message: {
          ...{ consumer: QUEUE, redeliveryDelay: 20, maxPause: 1_000 },
          // Otherwise it is redelivered again and again.
          onFailure: 'dead-letter',
        },
      }),
      ...(kind === 'inner' ? [UseInterceptors(inner('early'))] : []),
      EventPattern([kind]),
    ];
  },
);

export async function overRabbitMq(settings: WaySettings): Promise<Way> {
  const { rabbitMqPort = 0 } = settings;
  const url = (port: number) => `amqp://guest:guest@127.0.0.1:${port}`;
  const publisher = await connect(url(rabbitMqPort));
  const publishing = await publisher.createConfirmChannel();
  await publishing.assertQueue(QUEUE, { durable: true });

  const relay = await TcpRelay.start(rabbitMqPort);

  const module = appModule(settings, { controllers: [OrdersConsumer] });
  const nest = await NestFactory.createMicroservice<MicroserviceOptions>(module, {
    logger: false,
    abortOnError: false,
    transport: Transport.RMQ,
    options: {
      urls: [url(relay.port)],
      queue: QUEUE,
      noAck: false,
      prefetchCount: PREFETCH,
      queueOptions: { durable: true },
      socketOptions: { reconnectTimeInSeconds: 1 },
    },
  });
  /** The waiters for the first end of a message, by its correlation id. */
  const waiting = new Map<string, () => void>();
  let channel: EventEmitter | undefined;
  nest.useGlobalInterceptors(
    {
      intercept: (context: ExecutionContext, next) => {
        const rpc = context.switchToRpc().getContext<RmqContext>();
        channel = rpc.getChannelRef() as EventEmitter;
        const message = rpc.getMessage() as { properties: { correlationId: string } };
        const { correlationId } = message.properties;
        return next.handle().pipe(finalize(() => waiting.get(correlationId)?.()));
      },
    },
    outer('early'),
  );
  await nest.listen();

  const send = async ({ kind, key, amount }: Order) => {
    const correlationId = randomUUID();
    const ended = new Promise<void>((resolve) => waiting.set(correlationId, resolve));
    const content = Buffer.from(JSON.stringify({ pattern: kind, data: { amount } }));
    publishing.sendToQueue(QUEUE, content, { messageId: key, correlationId });
    await ended;
    waiting.delete(correlationId);
  };
  return {
    nest,
    send,
    // The broker closes all of them at once: disconnect().
    sendAndLeave: send,
    disconnect: () => {
      relay.cut();
    },
    settled: () =>
      until(async () => {
        const { ready } = await queueLength(url(rabbitMqPort), QUEUE);
        return ready === 0;
      }, SETTLED_WITHIN_MS),
    emitters: () => ({ 'the channel': channel === undefined ? [] : [channel] }),
  };
}
