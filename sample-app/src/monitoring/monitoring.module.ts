import { Module } from '@nestjs/common';
import { TerminusModule } from '@nestjs/terminus';
import { IdempotencyHealthIndicator } from 'nestjs-idempotency/terminus';
import { ActivityController } from './activity.controller.js';
import { HealthController } from './health.controller.js';
import { IdempotencyLog } from './idempotency-log.js';
import { MetricsController } from './metrics.controller.js';

/** What an operator sees. Its routes need no token. */
@Module({
  imports: [TerminusModule],
  controllers: [HealthController, MetricsController, ActivityController],
  providers: [IdempotencyHealthIndicator, IdempotencyLog],
})
export class MonitoringModule {}
