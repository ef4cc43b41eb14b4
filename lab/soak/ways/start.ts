import type { Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { Module, type INestApplication, type ModuleMetadata } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { IdempotencyModule } from 'nestjs-idempotency';
import type { Platform } from '../../../test/support/http/combinations.js';
import { namedFor } from '../../../test/support/stores/named-for.js';
import { outer } from '../operations.js';
import type { Way, WaySettings } from '../setup.js';

@Module({})
class AppModule {}

/** The application of a transport. */
export function appModule({ store }: WaySettings, metadata: ModuleMetadata) {
  const imports = [
    IdempotencyModule.forRoot({ store, ...namedFor(store) }),
    ...(metadata.imports ?? []),
  ];
  return { ...metadata, module: AppModule, imports };
}

export interface ListeningApp extends Pick<Way, 'nest' | 'emitters'> {
  readonly port: number;
}

/** An application that listens; its connections stay as long as their clients want. */
export async function listen(
  settings: WaySettings,
  metadata: ModuleMetadata,
  {
    platform = 'express',
    early = 'early',
    configure,
  }: {
    readonly platform?: Platform;
    /** The response in place of what takes too long. */
    readonly early?: unknown;
    readonly configure?: (app: INestApplication) => unknown;
  } = {},
): Promise<ListeningApp> {
  const adapter = platform === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
  const module = appModule(settings, metadata);
  const nest = await NestFactory.create(module, adapter, { logger: false, abortOnError: false });
  nest.useGlobalInterceptors(outer(early));
  await configure?.(nest);
  await nest.listen(0, '127.0.0.1');
  const server = nest.getHttpServer() as Server;
  server.keepAliveTimeout = 0;
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  return {
    nest,
    port: (server.address() as AddressInfo).port,
    emitters: () => ({ 'the server': [server], 'its sockets': [...sockets] }),
  };
}
