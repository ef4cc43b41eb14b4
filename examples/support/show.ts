import 'reflect-metadata';
import type { AddressInfo } from 'node:net';
import { Module, type ModuleMetadata } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { IdempotencyModule, type IdempotencyModuleOptions } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { BearerGuard, post, type Got, type Sent } from './http-client.js';

@Module({})
class ExampleModule {}

/** Runs an application of these parts for as long as `use` sends it requests, and prints each with its response. */
export async function show(
  { imports = [], ...parts }: ModuleMetadata,
  use: (send: (path: string, sent: Sent) => Promise<Got>) => Promise<void>,
  options: Partial<IdempotencyModuleOptions> = {},
): Promise<void> {
  const idempotency = IdempotencyModule.forRoot({ store: memoryStore(), ...options });
  const app = await NestFactory.create(
    { module: ExampleModule, imports: [...imports, idempotency], ...parts },
    { logger: ['error'], rawBody: true },
  );
  app.useGlobalGuards(new BearerGuard());
  await app.listen(0, '127.0.0.1');
  const { port } = app.getHttpServer().address() as AddressInfo;
  try {
    await use(async (path, sent) => {
      const got = await post(port, path, sent);
      const caller = sent.as === undefined ? '' : ` of ${JSON.stringify(sent.as)}`;
      console.log(`POST ${path} with key ${sent.key}${caller} ${JSON.stringify(sent.json)}`);
      console.log(`  ${got.status}${got.replayed ? ', replayed' : ''} ${JSON.stringify(got.body)}`);
      return got;
    });
  } finally {
    await app.close();
  }
}
