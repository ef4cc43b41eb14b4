import type { INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { EXPOSED_HEADERS } from 'nestjs-idempotency';
import { AppModule } from './app.module.js';
import type { Environment, Platform } from './config/environment.js';
import { serveDocs } from './docs.js';
import { consumeOrders } from './orders/consume-orders.js';

/** Creates the application, listens on 127.0.0.1, and consumes orders if there is a broker. */
export async function startApp(environment: Environment): Promise<INestApplication> {
  const { PLATFORM, CORS_ORIGIN, PORT, BROKER_URL: url, ORDERS_QUEUE: queue } = environment;
  const app = await createApp(PLATFORM, CORS_ORIGIN);
  app.enableShutdownHooks();
  await app.listen(PORT, '127.0.0.1');
  app.useLogger(['error', 'warn', 'log']);
  if (url !== undefined) await consumeOrders(app, { url, queue });
  return app;
}

/**
 * Creates the application on either platform, without listening.
 *
 * @param corsOrigin - a second origin whose pages may use the API.
 */
export async function createApp(
  platform: Platform,
  corsOrigin?: string,
): Promise<INestApplication> {
  const adapter = platform === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
  const app = await NestFactory.create(AppModule, adapter, { logger: ['error', 'warn'] });
  if (corsOrigin !== undefined) {
    app.enableCors({ origin: corsOrigin, exposedHeaders: [...EXPOSED_HEADERS] });
  }
  serveDocs(app);
  return app;
}
