/**
 * A user's application. The test compiles this one file twice, in a separate folder: as CommonJS on Nest 11
 * and as an ES module on Nest 12.
 */
import 'reflect-metadata';
import {
  Body,
  Controller,
  Get,
  Header,
  Injectable,
  Module,
  Param,
  Post,
  type INestApplication,
  type NestApplicationOptions,
} from '@nestjs/common';
import { NestFactory, type AbstractHttpAdapter } from '@nestjs/core';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import {
  IdempotencyModule,
  IdempotencyStore,
  Idempotent,
  currentIdempotencyContext,
  type IdempotencyEvent,
  type IdempotencyHealth,
  type IdempotencyMeter,
  type IdempotencyModuleOptions,
  type IdempotencyRecords,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { prometheus } from 'nestjs-idempotency/prometheus';
import { redisStore } from 'nestjs-idempotency/redis';
import { documentIdempotency } from 'nestjs-idempotency/swagger';
import { IdempotencyHealthIndicator } from 'nestjs-idempotency/terminus';
import { register } from 'prom-client';
import { Observable } from 'rxjs';

// Their types are named in this file's declarations alone.
export const contextNow = () => currentIdempotencyContext();
export const telemetry = () => prometheus();
export const checked = (health: IdempotencyHealth) => health.check();
export const leaseOf = (options: IdempotencyModuleOptions) => options.lease;
export const unitOf = ({ unitOfWork }: IdempotencyModuleOptions) => unitOfWork;
export const readingOf = (meter: IdempotencyMeter) => [...meter.read().operations.values()][0];
export const takeover = (event: IdempotencyEvent) =>
  event.type === 'takeover' ? event : undefined;
export const listed = (records: IdempotencyRecords) => records.list();
export const looked = (...[key, options]: Parameters<IdempotencyStore['inspect']>) =>
  redisStore({ url: '' }).inspect(key, options);

const { REDIS_URL: url, PLATFORM, FINGERPRINT, REQUEST_PATH } = process.env;

/** Subscriptions to streams, of whatever library, while requests run. */
let streams = 0;
const ofStreams = Observable.prototype as { subscribe: (...args: unknown[]) => unknown };
ofStreams.subscribe = new Proxy(ofStreams.subscribe, {
  apply: (subscribe, stream, args) => {
    streams += 1;
    return Reflect.apply(subscribe, stream, args);
  },
});

/** Installed where it is used, and not where this is compiled. */
const FASTIFY = ['@nestjs', 'platform-fastify'].join('/');

@Controller('charges')
class ChargesController {
  private charges = 0;

  // By its class alone: works only if application and package share one class.
  constructor(private readonly store: IdempotencyStore) {}

  @Post()
  @Idempotent()
  charge(@Body() { amount }: { amount: number }): { charge: number; amount: number } {
    this.charges += 1;
    return { charge: this.charges, amount };
  }

  @Get()
  summary(): { charges: number; store: string; streams: number } {
    return { charges: this.charges, store: this.store.constructor.name, streams };
  }
}

/** Methods that no request reaches directly. */
@Injectable()
class Printer {
  private printed = 0;

  @Idempotent({ operation: 'printer.print', key: (charge: string) => charge, scope: () => [] })
  async print(charge: string): Promise<{ charge: string; printed: number }> {
    this.printed += 1;
    return Promise.resolve({ charge, printed: this.printed });
  }
}

@Controller('receipts')
class ReceiptsController {
  constructor(private readonly printer: Printer) {}

  @Get(':charge')
  receipt(@Param('charge') charge: string): Promise<{ charge: string; printed: number }> {
    return this.printer.print(charge);
  }
}

@Controller('ready')
class HealthController {
  constructor(
    private readonly terminus: HealthCheckService,
    private readonly idempotency: IdempotencyHealthIndicator,
  ) {}

  @Get()
  @HealthCheck()
  ready() {
    return this.terminus.check([
      () => this.idempotency.check('store', { probe: 'write', maxAge: 0 }),
    ]);
  }
}

@Controller('metrics')
class MetricsController {
  @Get()
  @Header('content-type', register.contentType)
  metrics(): Promise<string> {
    return register.metrics();
  }
}

@Module({
  imports: [
    TerminusModule,
    IdempotencyModule.forRoot({
      service: 'consumer',
      store: url === undefined ? memoryStore() : redisStore({ url }),
      caller: { scope: () => 'tester' },
      ...(FINGERPRINT === 'bytes' && { fingerprint: FINGERPRINT }),
      http: { fastPath: REQUEST_PATH !== 'streams' },
      telemetry: prometheus(),
    }),
  ],
  controllers: [ChargesController, HealthController, MetricsController, ReceiptsController],
  providers: [IdempotencyHealthIndicator, Printer],
})
class AppModule {}

async function main(): Promise<void> {
  const settings: NestApplicationOptions = { logger: ['error', 'warn'] };
  const app =
    PLATFORM === 'fastify'
      ? await NestFactory.create(AppModule, await fastifyAdapter(), settings)
      : await NestFactory.create(AppModule, settings);
  app.enableShutdownHooks();
  // On Fastify the page would need one more package.
  if (PLATFORM !== 'fastify') serveDocument(app);
  await app.listen(0, '127.0.0.1');
  streams = 0;
  console.log(`listening on ${await app.getUrl()}`);
}

async function fastifyAdapter(): Promise<AbstractHttpAdapter> {
  const loaded: { FastifyAdapter: new () => AbstractHttpAdapter } = await import(FASTIFY);
  return new loaded.FastifyAdapter();
}

function serveDocument(app: INestApplication): void {
  const config = new DocumentBuilder().build();
  const document = documentIdempotency(app, () => SwaggerModule.createDocument(app, config));
  SwaggerModule.setup('docs', app, document);
}

void main();
