import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Transport, type MicroserviceOptions } from '@nestjs/microservices';
import type { AmqpConnectionManager } from 'amqp-connection-manager';
import { IdempotencyEvents, IdempotencyModule } from 'nestjs-idempotency';
import { LineFile } from '../../worker/line-file.js';
import { ObservedStore } from '../../worker/observed-store.js';
import { openStore } from '../../worker/open-store.js';
import { SERVICE, SETTINGS_VARIABLE, WORKER_SETTINGS } from '../../worker/settings.js';
import { ConsumingChannel } from './consuming-channel.js';
import { EffectsController } from './effects.controller.js';
import { noteEvents } from './note-events.js';
import { PlannedCrash } from './planned-crash.js';
import type { ConsumerCommand, ConsumerSettings, ConsumingMessage } from './settings.js';

const settings = JSON.parse(process.env[SETTINGS_VARIABLE] ?? '') as ConsumerSettings;
const { name, options, brokerUrl, queue, prefetch } = settings;
const events = new LineFile(settings.eventsFile);
const crash = new PlannedCrash(name, events);
const store = new ObservedStore(openStore(settings.store), name, events, crash);

@Module({})
class ConsumerModule {}

const app = await NestFactory.createMicroservice<MicroserviceOptions>(
  {
    module: ConsumerModule,
    imports: [IdempotencyModule.forRoot({ ...options, store, service: SERVICE })],
    controllers: [EffectsController],
    providers: [
      { provide: WORKER_SETTINGS, useValue: settings },
      { provide: LineFile, useValue: new LineFile(settings.ledgerFile) },
      { provide: PlannedCrash, useValue: crash },
    ],
  },
  {
    transport: Transport.RMQ,
    options: {
      urls: [brokerUrl],
      queue,
      noAck: false,
      prefetchCount: prefetch,
      noAssert: true,
      // A machine that is busy with other tests is not to be mistaken for a connection that is dead.
      socketOptions: { reconnectTimeInSeconds: 0.1, heartbeatIntervalInSeconds: 60 },
    },
    logger: ['error', 'warn'],
  },
);
noteEvents(app.get(IdempotencyEvents), events, name);
app.enableShutdownHooks(['SIGTERM']);
const channel = new ConsumingChannel(() => app.unwrap<AmqpConnectionManager>());
app.useGlobalGuards(channel);
await app.listen();

process.once('SIGTERM', () => channel.leave());
process.on('message', (command: ConsumerCommand) => {
  switch (command.kind) {
    case 'crash':
      crash.plan(command.point);
      return;
    case 'close channel':
      void channel.close();
      return;
    case 'break channel':
      channel.breakUp();
  }
});

// Started with a channel to its parent, the process does not outlive it.
process.once('disconnect', () => process.exit());
process.send?.({ consuming: true } satisfies ConsumingMessage);
