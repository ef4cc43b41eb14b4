import type { AddressInfo } from 'node:net';
import {
  Module,
  type CanActivate,
  type INestApplication,
  type ModuleMetadata,
  type Provider,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter, type NestExpressApplication } from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { IdempotencyModule, type IdempotencyModuleOptions } from 'nestjs-idempotency';
import { namedFor } from '../stores/named-for.js';
import { CallersGuard } from './callers.guard.js';
import { nodeClock, type Clock } from '../internals/core.js';
import { CLOCK } from '../internals/nest.js';
import { isTestAll } from '../jest/test-all.js';
import type { Platform } from './combinations.js';
import { Scenario } from './scenario.js';

export interface StartAppOptions {
  readonly platform: Platform;
  readonly controllers: Type[];
  readonly providers?: Provider[];
  /** Modules besides that of the package. */
  readonly imports?: ModuleMetadata['imports'];
  readonly store: IdempotencyModuleOptions['store'];
  /** The module's other options. */
  readonly options?: Omit<IdempotencyModuleOptions, 'store'>;
  /** Whether the module binds its interceptor globally, around those of {@link imports}. */
  readonly isOutermost?: boolean;
  /** Of the engine, in place of Node's. */
  readonly clock?: Clock;
  readonly rawBody?: boolean;
  /** Speaks HTTP/2 without TLS; on Fastify alone. */
  readonly http2?: boolean;
  /** Authenticates the callers, in place of {@link CallersGuard}. */
  readonly guard?: CanActivate;
  /** Adds an application's pipes, filters, interceptors, middleware. */
  readonly configure?: (app: INestApplication) => unknown;
}

export interface TestApp {
  readonly nest: INestApplication;
  readonly port: number;
  scenario(): Scenario;
  close(): Promise<void>;
}

@Module({})
class AppModule {}

// A correct application is closed at a signal; otherwise the library warns.
process.on('SIGTERM', () => undefined);

/** A listening Nest application on a free port of 127.0.0.1. */
export async function startApp(start: StartAppOptions): Promise<TestApp> {
  const idempotency = IdempotencyModule.forRoot({
    store: start.store,
    ...namedFor(start.store),
    ...start.options,
    ...(start.isOutermost !== undefined && { isOutermost: start.isOutermost }),
    // `npm run test:all` runs the other pairing through Nest's streams.
    http: { fastPath: !isTestAll, ...start.options?.http },
  });
  const clock = { provide: CLOCK, useValue: start.clock ?? nodeClock };
  const module = {
    module: AppModule,
    imports: [
      { ...idempotency, providers: [...(idempotency.providers ?? []), clock] },
      ...(start.imports ?? []),
    ],
    controllers: start.controllers,
    providers: start.providers ?? [],
  };
  const settings = { logger: false, abortOnError: false, rawBody: start.rawBody ?? false } as const;
  let nest: INestApplication;
  if (start.platform === 'express') {
    const app = await NestFactory.create<NestExpressApplication>(
      module,
      new ExpressAdapter(),
      settings,
    );
    app.useBodyParser('text', { type: 'text/plain' });
    app.useBodyParser('raw', { type: 'application/octet-stream' });
    nest = app;
  } else {
    const app = await NestFactory.create<NestFastifyApplication>(
      module,
      start.http2 === true ? new FastifyAdapter({ http2: true } as object) : new FastifyAdapter(),
      settings,
    );
    app.useBodyParser('application/octet-stream');
    nest = app;
  }
  nest.useGlobalGuards(start.guard ?? new CallersGuard());
  await start.configure?.(nest);
  await nest.listen(0, '127.0.0.1');
  const { port } = nest.getHttpServer().address() as AddressInfo;
  const scenarios: Scenario[] = [];
  return {
    nest,
    port,
    scenario: () => {
      const scenario = new Scenario(port);
      scenarios.push(scenario);
      return scenario;
    },
    close: () => {
      // A failed test may have left a handler at its gate, and the shutdown waits for handlers.
      for (const { gate } of scenarios) gate.open();
      return nest.close();
    },
  };
}
