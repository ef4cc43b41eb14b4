import { Module } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { ThrottlerModule } from '@nestjs/throttler';
import { RequestLimit } from './limits.js';

@Module({
  imports: [
    ThrottlerModule.forRoot([
      { name: 'requests', ttl: 60_000, limit: 120 },
      { name: 'default', ttl: 60_000, limit: 10 }, // executions
      { name: 'records', ttl: 86_400_000, limit: 200 }, // over outcome.retention
    ]),
  ],
  providers: [{ provide: APP_GUARD, useClass: RequestLimit }],
})
export class RateLimitsModule {}
