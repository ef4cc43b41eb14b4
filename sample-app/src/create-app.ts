import type { INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { EXPOSED_HEADERS } from 'nestjs-idempotency';
import { AppModule } from './app.module.js';
import type { Platform } from './config/environment.js';
import { serveDocs } from './docs.js';

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
