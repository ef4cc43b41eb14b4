import { Injectable } from '@nestjs/common';
import { HealthIndicatorService, type HealthIndicatorResult } from '@nestjs/terminus';
import type { InMilliseconds } from '../../core/options/duration.js';
import { choice, resolveOptions, type Schema } from '../../core/options/option-schema.js';
import {
  HEALTH_OPTIONS,
  IdempotencyHealth,
  type IdempotencyHealthOptions,
} from '../health/idempotency-health.js';

/** Options of {@link IdempotencyHealthIndicator.check}. */
export interface IdempotencyHealthIndicatorOptions extends IdempotencyHealthOptions {
  /**
   * `'report'`: the indicator stays `up` without the store, and `errorType` says what is wrong: for applications that can
   * do without it. During the shutdown it is `down` in any case.
   * @defaultValue 'down'
   */
  readonly whenDown?: 'down' | 'report';
}

export const INDICATOR_OPTIONS: Schema<
  IdempotencyHealthIndicatorOptions,
  InMilliseconds<Required<IdempotencyHealthIndicatorOptions>>
> = {
  ...HEALTH_OPTIONS,
  whenDown: choice(['down', 'report'], { default: 'down' }),
};

/**
 * {@link IdempotencyHealth} for `@nestjs/terminus` 11 and 12. For readiness only. Provide it in the module of the health
 * controller, which imports `TerminusModule`.
 * @example
 * ```ts
 * @Get('ready')
 * @HealthCheck()
 * ready() {
 *   return this.terminus.check([() => this.idempotency.check('idempotency')]);
 * }
 * ```
 */
@Injectable()
export class IdempotencyHealthIndicator {
  constructor(
    private readonly indicators: HealthIndicatorService,
    private readonly health: IdempotencyHealth,
  ) {}

  /**
   * @param key - names the result in the document.
   * @throws {@link IdempotencyOptionsError} for an invalid option.
   */
  async check<const Key extends string>(
    key: Key,
    options: IdempotencyHealthIndicatorOptions = {},
  ): Promise<HealthIndicatorResult<Key>> {
    const { whenDown, ...checked } = resolveOptions(
      'IdempotencyHealthIndicator.check()',
      INDICATOR_OPTIONS,
      options,
    );
    const { status, ...details } = await this.health.check(checked);
    const isReport = whenDown === 'report' && details.errorType !== 'idempotency_shutting_down';
    const indicator = this.indicators.check(key);
    return status === 'up' || isReport ? indicator.up(details) : indicator.down(details);
  }
}
