import 'reflect-metadata';
import type { Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { Body, Controller, HttpCode, Module, Post, Req } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { IdempotencyModule, Idempotent } from 'nestjs-idempotency';
import { serve } from '../../../test/support/processes/child.js';
import { namedFor } from '../../../test/support/stores/named-for.js';
import { readHoldings } from './holdings.js';
import { LEAKS } from './leaks.js';
import { openRecords } from './records.js';
import type { GrowthSetup } from './setup.js';

const RETENTION_MS = 60_000;

const setup = JSON.parse(process.env.GROWTH_SETUP ?? '') as GrowthSetup;
const records = openRecords(setup, RETENTION_MS);

@Controller()
@Idempotent({
  caller: { anonymous: 'shared' },
  outcome: { retention: RETENTION_MS },
  storeErrors: { commandTimeout: RETENTION_MS },
})
class PaymentsController {
  @Post('payments')
  pay(@Body() { amount }: { amount: number }) {
    return { amount, status: 'authorised' };
  }

  @Post('declined')
  @HttpCode(503)
  decline() {
    return { status: 'declined' };
  }

  /** Works for as long as its client waits. */
  @Post('held')
  async hold(@Req() { socket }: { socket: Socket }) {
    // Not once() of node:events, which fails when the client resets its connection.
    await new Promise((resolve) => socket.once('close', resolve));
    return { status: 'too late' };
  }
}

@Module({
  imports: [IdempotencyModule.forRoot({ store: records.store, ...namedFor(records.store) })],
  controllers: [PaymentsController],
})
class AppModule {}

const adapter = setup.platform === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
const app = await NestFactory.create(AppModule, adapter, { logger: ['error'] });
await app.listen(0, '127.0.0.1');
const server = app.getHttpServer() as Server;
// The connections of the load stay open, so that each has served many requests when it is measured.
server.keepAliveTimeout = 0;
for (const leak of setup.leaks ?? []) server.on('request', LEAKS[leak]);

const sockets = new Set<Socket>();
server.on('connection', (socket: Socket) => {
  sockets.add(socket);
  socket.once('close', () => sockets.delete(socket));
});

serve({
  port: () => (server.address() as AddressInfo).port,
  versions: () => records.versions(),
  forget: () => records.forget(),
  read: () => {
    const ofTheStore = Object.entries(records.emitters());
    return readHoldings(() => ({
      'the process': [process],
      'the server': [server],
      'its sockets': [...sockets],
      ...Object.fromEntries(ofTheStore.map(([name, emitter]) => [name, [emitter]])),
    }));
  },
});
