import { HttpException } from '@nestjs/common';
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import type { OpenContender } from '../contender.js';
import { loadPackage } from '../load-package.js';

interface ExpressIdempotency {
  readonly idempotency: (settings: { dataAdapter: unknown }) => RequestHandler;
  readonly getSharedIdempotencyService: () => { isHit(request: Request): boolean };
}

interface RedisAdapter {
  readonly default: new (settings: { connectionConfig: { url: string } }) => {
    connect(): Promise<void>;
  };
}

/** `express-idempotency` as a middleware behind the body parsers, on `express-idempotency-redis-adapter`. */
export const expressIdempotency: OpenContender = async ({ redisUrl }) => {
  const { idempotency, getSharedIdempotencyService } = loadPackage(
    'express-idempotency',
  ) as ExpressIdempotency;
  const { default: Adapter } = loadPackage('express-idempotency-redis-adapter') as RedisAdapter;
  const dataAdapter = new Adapter({ connectionConfig: { url: redisUrl } });
  await dataAdapter.connect();
  const handle = idempotency({ dataAdapter });
  const service = getSharedIdempotencyService();
  const middleware = (request: Request, response: Response, next: NextFunction) => {
    void handle(request, response, (error?: unknown) => {
      if (error instanceof Error) next(new HttpException(error.message, response.statusCode));
      // It has answered, and leaves it to each handler to notice: here none is called any more.
      else if (!service.isHit(request)) next();
    });
  };
  return {
    configure: (app) => {
      (app as unknown as { useBodyParser(type: string): void }).useBodyParser('json');
      app.use(middleware);
    },
  };
};
