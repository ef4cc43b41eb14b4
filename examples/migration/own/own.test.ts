import { afterAll, beforeAll, describe } from '@jest/globals';
import { UseInterceptors, type INestApplication } from '@nestjs/common';
import { useRedis, useRedisClient } from '../../../test/support/redis/use-redis.js';
import { mistakenPayments, oldPayments, startPayments } from '../payments-app.js';
import { itSwitches } from '../switch.js';
import { OLD_REDIS, ownRecord } from './legacy-own.js';
import { PaymentsController } from './payments.controller.js';
import { SetnxInterceptor } from './setnx.interceptor.js';

describe('from an interceptor with SET NX', () => {
  const redis = useRedisClient(useRedis());
  const apps: INestApplication[] = [];
  let urls: string[] = [];

  beforeAll(async () => {
    const controllers = [
      oldPayments('payments', UseInterceptors(SetnxInterceptor)),
      PaymentsController,
      mistakenPayments(ownRecord),
    ];
    const providers = [{ provide: OLD_REDIS, useValue: redis }];
    urls = await Promise.all(
      controllers.map(async (controller) => {
        const [started, url] = await startPayments({
          controllers: [controller],
          platform: 'express',
          ...{ providers, redis },
        });
        apps.push(started);
        return url;
      }),
    );
  });
  afterAll(() => Promise.all(apps.map((app) => app.close())));

  itSwitches(() => {
    const [before = '', after = '', mistaken = ''] = urls;
    return {
      ...{ before, after, mistaken },
      charges: async (order) => Number(await redis.get(`charges:${order}`)),
      open: (order) => redis.rpush(`open:${order}`, 1),
    };
  });
});
