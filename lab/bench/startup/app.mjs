// Plain JavaScript: a loader of TypeScript would be measured, too. Prints what a start took, in milliseconds.
import 'reflect-metadata';
import { createRequire } from 'node:module';
import { Controller, Module, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';

const { contender, root, store: storeEntry, redisUrl } = JSON.parse(process.env.BENCH_STARTUP);
const require = createRequire(import.meta.url);

/** What each loads, and what it adds to the module and to the route. */
const openers = {
  bare: () => ({ imports: [], mark: () => undefined }),
  redis: async () => {
    const { Idempotent, IdempotencyModule } = await import(root);
    const { redisStore } = await import(storeEntry);
    const store = redisStore({ url: redisUrl });
    return {
      imports: [IdempotencyModule.forRoot({ service: 'bench', store })],
      mark: Idempotent(),
    };
  },
  'node-idempotency': () => {
    const peer = require('@node-idempotency/nestjs');
    const storage = { adapter: 'redis', options: { url: redisUrl } };
    return {
      imports: [peer.NodeIdempotencyModule.forRootAsync({ storage })],
      mark: peer.Idempotent(),
    };
  },
};

const started = performance.now();
const { imports, mark } = await openers[contender]();
const loaded = performance.now();

class PaymentsController {
  pay() {
    return {};
  }
}
decorate(PaymentsController.prototype, 'pay', Post('payments'), mark);
Controller()(PaymentsController);
class AppModule {}
Module({ imports, controllers: [PaymentsController] })(AppModule);

const app = await NestFactory.create(AppModule, new FastifyAdapter(), { logger: false });
await app.listen(0, '127.0.0.1');
const listening = performance.now();
process.stdout.write(
  JSON.stringify({ loadMs: loaded - started, startMs: listening - loaded }),
  () => process.exit(),
);

/** As the compilers do it: the last decorator first, each with what the one before it has made of the method. */
function decorate(prototype, name, ...decorators) {
  const original = Object.getOwnPropertyDescriptor(prototype, name);
  const decorated = decorators.reduceRight(
    (descriptor, decorator) => decorator(prototype, name, descriptor) ?? descriptor,
    original,
  );
  Object.defineProperty(prototype, name, decorated);
}
