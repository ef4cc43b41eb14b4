import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ConfigService } from '@nestjs/config';
import type { Environment } from '../config/environment.js';
import { FileLedger } from './file-ledger.js';
import type { Ledger } from './ledger.js';
import { MemoryLedger } from './memory-ledger.js';

/** Processes that share a Redis share the money too, so they need one ledger. */
export function createLedger(config: ConfigService<Environment, true>): Ledger {
  const file = config.get('LEDGER_FILE', { infer: true });
  if (file !== undefined) return new FileLedger(file);
  return config.get('STORE', { infer: true }) === 'redis'
    ? new FileLedger(join(tmpdir(), 'nestjs-idempotency-sample-ledger.jsonl'))
    : new MemoryLedger();
}
