/** Jest cannot load @nestjs/throttler, which require()s Nest 12: the applications run here, on a clock that the test moves. */
import 'reflect-metadata';
import { Body, Controller, Post, UseGuards, UseInterceptors } from '@nestjs/common';
import { ThrottlerGuard } from '@nestjs/throttler';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import type { Platform } from '../../test/support/http/combinations.js';
import { startApp, type TestApp } from '../../test/support/http/start-app.js';
import { serve } from '../../test/support/processes/child.js';
import { BearerGuard } from '../support/http-client.js';
import { ExecutionLimit } from './limits.js';
import { PaymentsController } from './payments.controller.js';
import { type Payment, Payments } from './payments.js';
import { RateLimitsModule } from './rate-limits.module.js';

/** What an application has that uses the package's guard, and the mistake of the wrong order. */
@Controller()
class OtherController {
  constructor(private readonly payments: Payments) {}

  @Post('guarded')
  @UseGuards(ThrottlerGuard)
  @Idempotent()
  guarded(@Body() payment: Payment) {
    return this.payments.charge(payment);
  }

  @Post('outside')
  @Idempotent()
  @UseInterceptors(ExecutionLimit)
  outside(@Body() payment: Payment) {
    return this.payments.charge(payment);
  }
}

let aheadMs = 0;
const now = Date.now.bind(Date);
Date.now = () => now() + aheadMs;

const apps = new Map<Platform, TestApp>();
for (const platform of ['express', 'fastify'] as const) {
  const app = await startApp({
    platform,
    imports: [RateLimitsModule],
    controllers: [PaymentsController, OtherController],
    providers: [Payments],
    store: memoryStore({ allowInMemoryStorage: true }),
    guard: new BearerGuard(),
  });
  apps.set(platform, app);
}

serve({
  port: (platform: Platform) => apps.get(platform)?.port,
  charges: (platform: Platform) => apps.get(platform)?.nest.get(Payments).charges.length,
  advance: (ms: number) => void (aheadMs += ms),
});
