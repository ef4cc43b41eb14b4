import {
  ClassSerializerInterceptor,
  Module,
  type CallHandler,
  type INestApplication,
} from '@nestjs/common';
import { NestFactory, Reflector } from '@nestjs/core';
import { ExpressAdapter, type NestExpressApplication } from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import multipart from '@fastify/multipart';
import { EXPOSED_HEADERS, IdempotencyModule } from 'nestjs-idempotency';
import { of, retry, tap, throwError, timeout, TimeoutError, type Observable } from 'rxjs';
import { documentIdempotency } from 'nestjs-idempotency/swagger';
import { CallerGuard } from './caller.guard.js';
import { ControlController } from './control.controller.js';
import type { Reply } from '../../support/http/reply.js';
import { ResponsesController } from './routes/responses.controller.js';
import { CallersController } from './routes/callers.controller.js';
import { ConcurrencyController } from './routes/concurrency.controller.js';
import { ContentController, HostedController } from './routes/content.controller.js';
import { FailuresController } from './routes/failures.controller.js';
import { KeysController } from './routes/keys.controller.js';
import { TimeController } from './routes/time.controller.js';
import { ExpressUploadsController, FastifyUploadsController } from './routes/uploads.controller.js';
import { FaultyStore } from '../../support/stores/faulty-store.js';
import { Traces } from './traces.js';

export interface AppSettings {
  readonly platform: 'express' | 'fastify';
  readonly store: FaultyStore;
  readonly fastPath: boolean;
  /** Whether global interceptors stand around each route. */
  readonly isBesideOthers: boolean;
  readonly traces: Traces;
}

/** A machine that is busy with other tests must not be mistaken for a store that is down. */
const TIMEOUT = { storeErrors: { commandTimeout: 5_000, saveTimeout: 10_000 } };

@Module({})
class AppModule {}

/** An ordinary application: a guard, parsers, CORS, request ids, its own OpenAPI document. */
export async function createApp({
  platform,
  store,
  fastPath,
  isBesideOthers,
  traces,
}: AppSettings) {
  const onExpress = platform === 'express';
  const module = {
    module: AppModule,
    imports: [
      IdempotencyModule.forRoot({ store, service: 'contract', ...TIMEOUT, http: { fastPath } }),
    ],
    controllers: [
      ControlController,
      KeysController,
      CallersController,
      ContentController,
      HostedController,
      onExpress ? ExpressUploadsController : FastifyUploadsController,
      ConcurrencyController,
      ResponsesController,
      FailuresController,
      TimeController,
    ],
    providers: [
      { provide: FaultyStore, useValue: store },
      { provide: Traces, useValue: traces },
    ],
  };
  const settings = { logger: traces, rawBody: true, abortOnError: false };
  const app = onExpress
    ? await NestFactory.create<NestExpressApplication>(module, new ExpressAdapter(), settings)
    : await NestFactory.create<NestFastifyApplication>(module, new FastifyAdapter(), settings);
  if (onExpress) parseOnExpress(app as NestExpressApplication);
  else await parseOnFastify(app as NestFastifyApplication);
  app.useGlobalGuards(new CallerGuard());
  if (isBesideOthers) intercept(app);
  app.enableCors({ origin: true, exposedHeaders: EXPOSED_HEADERS.join(', ') });
  numberExchanges(app);
  serveDocument(app);
  return app;
}

/** As many applications have them: a log, a serializer, a time limit after which the rest is called once more. */
function intercept(app: INestApplication): void {
  const around = (change: (stream: Observable<unknown>) => Observable<unknown>) => ({
    intercept: (_: unknown, next: CallHandler) => change(next.handle()),
  });
  const isOverdue = (error: unknown) =>
    error instanceof TimeoutError ? of(true) : throwError(() => error);
  app.useGlobalInterceptors(
    around((stream) => stream.pipe(tap({ error: () => undefined }))),
    new ClassSerializerInterceptor(app.get(Reflector)),
    around((stream) => stream.pipe(timeout(20_000), retry({ count: 1, delay: isOverdue }))),
  );
}

function parseOnExpress(app: NestExpressApplication): void {
  app.disable('x-powered-by');
  app.useBodyParser('text', { type: 'text/plain' });
  app.useBodyParser('raw', { type: 'application/octet-stream' });
}

async function parseOnFastify(app: NestFastifyApplication): Promise<void> {
  // Fastify's own way: on Nest 11, `app.useBodyParser()` takes the place of all of Nest's parsers, raw bodies included.
  app
    .getHttpAdapter()
    .getInstance()
    .addContentTypeParser('application/octet-stream', { parseAs: 'buffer' }, (_, body, done) => {
      done(null, body);
    });
  await app.register(multipart, { attachFieldsToBody: true });
}

/** As a middleware for request ids does: a new one for each exchange, under a known name and a custom one. */
function numberExchanges(app: INestApplication): void {
  let exchanges = 0;
  app.use(
    (_: unknown, response: { setHeader(name: string, value: string): void }, next: () => void) => {
      exchanges += 1;
      response.setHeader('X-Request-Id', `exchange-${exchanges}`);
      response.setHeader('X-Exchange', String(exchanges));
      next();
    },
  );
}

function serveDocument(app: INestApplication): void {
  const config = new DocumentBuilder().build();
  const document = documentIdempotency(app, () => SwaggerModule.createDocument(app, config));
  app.getHttpAdapter().get('/openapi.json', (_: unknown, reply: Reply) => {
    reply.send(document);
  });
}
