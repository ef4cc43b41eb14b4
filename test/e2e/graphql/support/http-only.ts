import 'reflect-metadata';
import type { AddressInfo } from 'node:net';
import { Controller, Module, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Idempotent, IdempotencyModule } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';

/** An application without GraphQL, which sends itself a request and its retry, and prints the responses. */
@Controller()
class ChargesController {
  private charges = 0;

  @Post()
  @Idempotent()
  charge() {
    this.charges += 1;
    return { charge: this.charges };
  }
}

@Module({
  imports: [IdempotencyModule.forRoot({ store: memoryStore(), caller: { anonymous: 'shared' } })],
  controllers: [ChargesController],
})
class AppModule {}

const graphql = await import('graphql').then(
  () => 'installed',
  (error: unknown) => (error as Error).message,
);
const app = await NestFactory.create(AppModule, { logger: false });
await app.listen(0, '127.0.0.1');
const { port } = app.getHttpServer().address() as AddressInfo;
const charge = async (): Promise<unknown> => {
  const headers = { 'Idempotency-Key': 'one' };
  const response = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', headers });
  return response.json();
};
console.log(JSON.stringify({ graphql, responses: [await charge(), await charge()] }));
await app.close();
