import type { ConfigService } from '@nestjs/config';
import { memoryStore } from 'nestjs-idempotency/memory';
import type { Environment } from '../config/environment.js';
import { FileLedger } from '../ledger/file-ledger.js';
import { MemoryLedger } from '../ledger/memory-ledger.js';
import { Persistence } from './persistence.js';

export function inMemory(config: ConfigService<Environment, true>): Persistence {
  const file = config.get('LEDGER_FILE', { infer: true });
  const ledger = file === undefined ? new MemoryLedger() : new FileLedger(file);
  return new Persistence({ store: memoryStore() }, ledger);
}
