import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Controller, Inject } from '@nestjs/common';
import { EventPattern } from '@nestjs/microservices';
import { IdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { LineFile } from '../../worker/line-file.js';
import { OPERATION, WORKER_SETTINGS } from '../../worker/settings.js';
import { PlannedCrash } from './planned-crash.js';
import { PATTERN, type ConsumerSettings } from './settings.js';

@Controller()
export class EffectsController {
  constructor(
    @Inject(WORKER_SETTINGS) private readonly settings: ConsumerSettings,
    private readonly ledger: LineFile,
    private readonly crash: PlannedCrash,
  ) {}

  @Idempotent({ operation: OPERATION })
  @EventPattern(PATTERN)
  async handle(@IdempotencyContext() context: IdempotencyContext): Promise<void> {
    await this.crash.at('in_handler');
    const { effectDelayMs, name: worker } = this.settings;
    if (effectDelayMs > 0) await delay(effectDelayMs);
    const { key, attempt, fencingToken: fence, isTakeover } = context;
    const execution = randomUUID();
    this.ledger.append({ key, attempt, fence, isTakeover, at: Date.now(), worker, execution });
    await this.crash.at('after_effect');
  }
}
