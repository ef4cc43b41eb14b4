import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Body, Controller, Inject, Post, Res } from '@nestjs/common';
import { IdempotencyContext, IdempotencyTransaction, Idempotent } from 'nestjs-idempotency';
import type { PoolClient } from 'pg';
import type { EffectRequest } from './effects.controller.js';
import { Mishaps } from './mishaps.js';
import { octets } from './octets.js';
import { EXECUTION_HEADER, OPERATION, WORKER_SETTINGS, type WorkerSettings } from './settings.js';

const INSERT = `
  INSERT INTO effects (key, attempt, fence, is_takeover, execution, worker, at)
  VALUES ($1, $2, $3, $4, $5, $6, $7)`;

/** The effect is a row, in the transaction that has the record, too. */
@Controller('effects')
export class TransactionalEffectsController {
  constructor(
    @Inject(WORKER_SETTINGS) private readonly settings: WorkerSettings,
    private readonly mishaps: Mishaps,
  ) {}

  @Idempotent({ operation: OPERATION, transaction: true })
  @Post()
  async create(
    @IdempotencyContext() context: IdempotencyContext,
    @IdempotencyTransaction() transaction: Pick<PoolClient, 'query'>,
    @Body() { bytes }: EffectRequest,
    @Res({ passthrough: true }) reply: { header(name: string, value: string): unknown },
  ): Promise<unknown> {
    await this.mishaps.at('in_handler');
    const { effectDelayMs = 0, name: worker } = this.settings;
    if (effectDelayMs > 0) await delay(effectDelayMs);
    const { key, attempt, fencingToken: fence, isTakeover } = context;
    const execution = randomUUID();
    const row = [key, attempt, fence, isTakeover, execution, worker, Date.now()];
    await transaction.query(INSERT, row);
    await this.mishaps.at('after_effect');
    reply.header(EXECUTION_HEADER, execution);
    return bytes === undefined ? { key, execution, attempt } : octets(bytes, execution);
  }
}
