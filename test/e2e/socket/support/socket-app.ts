import {
  createParamDecorator,
  type ExecutionContext,
  type INestApplication,
  type Type,
} from '@nestjs/common';
import type { OnGatewayConnection } from '@nestjs/websockets';
import { IoAdapter } from '@nestjs/platform-socket.io';
import { WsAdapter } from '@nestjs/platform-ws';
import {
  IdempotencyEvents,
  type IdempotencyEvent,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { CallersGuard } from '../../../support/http/callers.guard.js';
import type { StoreKind } from '../../../support/http/combinations.js';
import { SCENARIO_HEADER, scenarioOf, type Scenario } from '../../../support/http/scenario.js';
import { isTestAll } from '../../../support/jest/test-all.js';
import { startApp, type StartAppOptions, type TestApp } from '../../../support/http/start-app.js';
import {
  connectClient,
  connectSocketIo,
  type SocketClient,
  type SocketIoClient,
  type SocketPlatform,
} from './socket-client.js';

export const socketPlatforms: readonly SocketPlatform[] = ['socket.io', 'ws'];

const stores: readonly StoreKind[] = isTestAll ? ['redis', 'memory'] : ['memory', 'redis'];

/** Each adapter with one store; `npm run test:all` covers the other pairs. */
export const socketCombinations = socketPlatforms.map((platform, index) => ({
  platform,
  store: stores[index]!,
}));

interface TestPayload {
  readonly scenario: string;
}

/** The scenario of a message. */
export const InScenario = createParamDecorator((_: unknown, context: ExecutionContext) => {
  const { scenario } = context.switchToWs().getData<TestPayload>();
  return scenarioOf({ headers: { [SCENARIO_HEADER]: scenario } });
});

/** A payload of the scenario, with its key and the given members. */
export function payloadOf({ id, key }: Scenario, more: object = {}): object {
  return { scenario: id, idempotencyKey: key, amount: 1200, ...more };
}

/** The part of a client that a test's gateway reads; with ws the request is a separate argument. */
interface Connection {
  user?: object;
  readonly request?: { readonly url?: string };
}

/** Identifies callers by the address that they connect to: `?as=alice`. */
export abstract class KnownCallers implements OnGatewayConnection {
  handleConnection(client: Connection, request = client.request): void {
    const as = new URL(request?.url ?? '', 'http://localhost').searchParams.get('as');
    if (as !== null) client.user = { id: as };
  }
}

export interface StartSocketAppOptions {
  readonly platform: SocketPlatform;
  readonly store: IdempotencyModuleOptions['store'];
  readonly gateways: Type[];
  readonly controllers?: Type[];
  readonly options?: Omit<IdempotencyModuleOptions, 'store'>;
  readonly more?: Pick<StartAppOptions, 'imports' | 'isOutermost'>;
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
    ...start.more,
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
