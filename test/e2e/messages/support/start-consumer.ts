import { Module, type INestMicroservice, type Provider, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { MicroserviceOptions } from '@nestjs/microservices';
import { IdempotencyModule, type IdempotencyModuleOptions } from 'nestjs-idempotency';
import { namedFor } from '../../../support/stores/named-for.js';

export interface StartConsumerOptions {
  readonly controllers: Type[];
  readonly providers?: Provider[];
  /** The module's options. */
  readonly options: IdempotencyModuleOptions;
  /** Adds the pipes, filters and interceptors of an application. */
  readonly configure?: (app: INestMicroservice) => unknown;
}

@Module({})
class ConsumerModule {}

/** A listening microservice. */
export async function startConsumer(
  transport: MicroserviceOptions,
  { controllers, providers = [], options, configure }: StartConsumerOptions,
): Promise<INestMicroservice> {
  const module = {
    module: ConsumerModule,
    imports: [IdempotencyModule.forRoot({ ...namedFor(options.store), ...options })],
    controllers,
    providers,
  };
  const app = await NestFactory.createMicroservice<MicroserviceOptions>(module, {
    ...transport,
    logger: false,
    abortOnError: false,
  });
  try {
    await configure?.(app);
    await app.listen();
  } catch (error) {
    await app.close();
    throw error;
  }
  return app;
}
