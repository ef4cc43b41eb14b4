import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ConfigService } from '@nestjs/config';
import { redisStore } from 'nestjs-idempotency/redis';
import type { Environment } from '../config/environment.js';
import { FileLedger } from '../ledger/file-ledger.js';
import { Persistence } from './persistence.js';

/** Processes that share a Redis must share one ledger. */
const COMMON_FILE = join(tmpdir(), 'nestjs-idempotency-sample-ledger.jsonl');

export function inRedis(config: ConfigService<Environment, true>): Persistence {
  const url = config.get('REDIS_URL', { infer: true });
  const file = config.get('LEDGER_FILE', { infer: true }) ?? COMMON_FILE;
  return new Persistence({ store: redisStore({ url }) }, new FileLedger(file));
}
