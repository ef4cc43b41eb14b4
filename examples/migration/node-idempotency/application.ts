/** Applications of one payments API, with the old package, with this one, and with both, on one Redis. */
import 'reflect-metadata';
import type { DynamicModule, INestApplication } from '@nestjs/common';
import { Redis } from 'ioredis';
import { loadPackage } from '../../../lab/bench/http/load-package.js';
import type { Platform } from '../../../test/support/http/combinations.js';
import { serve } from '../../../test/support/processes/child.js';
import { mistakenPayments, oldPayments, startPayments } from '../payments-app.js';
import { nodeIdempotencyRecord, OLD_REDIS } from './legacy-node-idempotency.js';
import { PaymentsController } from './payments.controller.js';

/** `beside`: payments by this package, vouchers still by the old one. `mistaken`: without `recoverOn`. */
export type Version = 'old' | 'beside' | 'mistaken';

export interface Start {
  readonly version: Version;
  readonly platform: Platform;
}

interface OldPackage {
  readonly Idempotent: () => MethodDecorator;
  readonly NodeIdempotencyModule: { forRootAsync(options: object): DynamicModule };
  readonly StorageAdapterEnum: { readonly redis: string };
}

const url = process.env.MIGRATION_REDIS ?? '';
const old = loadPackage('@node-idempotency/nestjs') as OldPackage;
const storage = { adapter: old.StorageAdapterEnum.redis, options: { url } };
const redis = new Redis(url);

const vouchers = oldPayments('vouchers', old.Idempotent());
const controllers = {
  old: [oldPayments('payments', old.Idempotent()), vouchers],
  beside: [PaymentsController, vouchers],
  mistaken: [mistakenPayments(nodeIdempotencyRecord('POST', '/payments'))],
};

const apps: INestApplication[] = [];

serve({
  start: async ({ version, platform }: Start) => {
    const [app, address] = await startPayments({
      controllers: controllers[version],
      imports: [old.NodeIdempotencyModule.forRootAsync({ storage })],
      providers: [{ provide: OLD_REDIS, useValue: redis }],
      ...{ redis, platform },
    });
    apps.push(app);
    return address;
  },
  stop: async () => {
    await Promise.all(apps.map((app) => app.close()));
    redis.disconnect();
  },
});
