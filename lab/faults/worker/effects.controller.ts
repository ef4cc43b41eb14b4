import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Readable } from 'node:stream';
import { Body, Controller, Inject, Post, Res, StreamableFile } from '@nestjs/common';
import { IdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { LineFile } from './line-file.js';
import { Mishaps } from './mishaps.js';
import { octets } from './octets.js';
import { EXECUTION_HEADER, OPERATION, WORKER_SETTINGS, type WorkerSettings } from './settings.js';

/** What a client asks for. */
export interface EffectRequest {
  /** Size of an answer in bytes instead of JSON: all of them, over and over. */
  readonly bytes?: number;
  /** Whether they are a stream. */
  readonly isStreamed?: boolean;
}

@Controller('effects')
export class EffectsController {
  constructor(
    @Inject(WORKER_SETTINGS) private readonly settings: WorkerSettings,
    private readonly ledger: LineFile,
    private readonly mishaps: Mishaps,
  ) {}

  @Idempotent({ operation: OPERATION })
  @Post()
  async create(
    @IdempotencyContext() context: IdempotencyContext,
    @Body() { bytes, isStreamed }: EffectRequest,
    @Res({ passthrough: true }) reply: { header(name: string, value: string): unknown },
  ): Promise<unknown> {
    await this.mishaps.at('in_handler');
    const { effectDelayMs = 0, name: worker } = this.settings;
    if (effectDelayMs > 0) await delay(effectDelayMs);
    const { key, attempt, fencingToken: fence, isTakeover } = context;
    const execution = randomUUID();
    this.ledger.append({ key, attempt, fence, isTakeover, at: Date.now(), worker, execution });
    await this.mishaps.at('after_effect');
    reply.header(EXECUTION_HEADER, execution);
    if (bytes === undefined) return { key, execution, attempt };
    const body = octets(bytes, execution);
    return isStreamed === true ? new StreamableFile(inChunks(body)) : body;
  }
}

const CHUNK_BYTES = 65_536;

function inChunks(body: Buffer): Readable {
  const chunks = function* () {
    for (let at = 0; at < body.length; at += CHUNK_BYTES) {
      yield body.subarray(at, at + CHUNK_BYTES);
    }
  };
  return Readable.from(chunks(), { objectMode: false });
}
