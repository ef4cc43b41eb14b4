import type { ExecutionContext, INestApplication, Type } from '@nestjs/common';
import { IoAdapter } from '@nestjs/platform-socket.io';
import { WsAdapter } from '@nestjs/platform-ws';
import {
  IdempotencyEvents,
  type IdempotencyEvent,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { CallersGuard } from '../../../support/http/callers.guard.js';
import type { Scenario } from '../../../support/http/scenario.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import {
  connectClient,
  connectSocketIo,
  type SocketClient,
  type SocketIoClient,
} from './socket-client.js';
import type { SocketPlatform } from './socket-platforms.js';

export interface StartSocketAppOptions {
  readonly platform: SocketPlatform;
  readonly store: IdempotencyModuleOptions['store'];
  readonly gateways: Type[];
  readonly controllers?: Type[];
  readonly options?: Omit<IdempotencyModuleOptions, 'store'>;
  /** Adds the filters and interceptors of an application. */
  readonly configure?: (app: INestApplication) => unknown;
}

export interface SocketApp {
  readonly nest: INestApplication;
  readonly port: number;
  scenario(): Scenario;
  /** A new connection, which is closed with the application. */
  connect(as?: string): Promise<SocketClient>;
  connectSocketIo(
    as?: string,
    options?: Parameters<typeof connectSocketIo>[2],
  ): Promise<SocketIoClient>;
  /** The next event of this type. */
  next(type: IdempotencyEvent['type']): Promise<IdempotencyEvent>;
  close(): Promise<void>;
}

/** Callers of HTTP have a token; those of sockets are identified when they connect. */
class Callers extends CallersGuard {
  override canActivate(context: ExecutionContext): boolean {
    return context.getType() === 'ws' || super.canActivate(context);
  }
}

/** A listening Nest application whose gateways share the port of its HTTP server. */
export async function startSocketApp(start: StartSocketAppOptions): Promise<SocketApp> {
  const { platform, store, gateways, controllers = [], options = {}, configure } = start;
  const app: TestApp = await startApp({
    platform: 'express',
    store,
    options,
    controllers,
    providers: gateways,
    guard: new Callers(),
    configure: (nest) => {
      nest.useWebSocketAdapter(platform === 'ws' ? new WsAdapter(nest) : new IoAdapter(nest));
      return configure?.(nest);
    },
  });
  const { nest, port } = app;
  const clients: SocketClient[] = [];
  const kept = async <Client extends SocketClient>(connecting: Promise<Client>) => {
    const client = await connecting;
    clients.push(client);
    return client;
  };
  return {
    nest,
    port,
    scenario: () => app.scenario(),
    connect: (as) => kept(connectClient(platform, port, as)),
    connectSocketIo: (as, more) => kept(connectSocketIo(port, as, more)),
    next: (type) =>
      new Promise((resolve) => {
        const unsubscribe = nest.get(IdempotencyEvents).subscribe((event) => {
          if (event.type !== type) return;
          unsubscribe();
          resolve(event);
        });
      }),
    close: async () => {
      await Promise.all(clients.map((client) => client.close()));
      await app.close();
    },
  };
}
