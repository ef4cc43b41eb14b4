import { Controller, Get } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { HealthCheck, type HealthCheckResult, HealthCheckService } from '@nestjs/terminus';
import { IdempotencyHealthIndicator } from 'nestjs-idempotency/terminus';

/** For an orchestrator, which has no token: the responses contain no key, no caller and no body. */
@Controller('health')
@ApiExcludeController()
export class HealthController {
  constructor(
    private readonly terminus: HealthCheckService,
    private readonly idempotency: IdempotencyHealthIndicator,
  ) {}

  /** Depends on this process alone: a restart does not bring the store back. */
  @Get('live')
  live() {
    return { status: 'ok' };
  }

  /** Responds with 503 while the store is down, because payments cannot run then. */
  @Get('ready')
  @HealthCheck()
  ready(): Promise<HealthCheckResult> {
    return this.terminus.check([() => this.idempotency.check('idempotency', { probe: 'write' })]);
  }
}
