import type { ConfigService } from '@nestjs/config';
import { openTelemetry } from 'nestjs-idempotency/opentelemetry';
import { prometheus } from 'nestjs-idempotency/prometheus';
import type { Persistence } from '../persistence/persistence.js';
import type { Environment } from './environment.js';

/** The module's options: where records are stored, how long an attempt may run, and where its numbers and traces go. */
export function idempotencyOptions(
  config: ConfigService<Environment, true>,
  { records }: Persistence,
) {
  const commandTimeoutMs = config.get('COMMAND_TIMEOUT_MS', { infer: true });
  return {
    ...records,
    lease: {
      duration: config.get('LEASE_MS', { infer: true }),
      maxExecution: config.get('MAX_EXECUTION_MS', { infer: true }),
    },
    storeErrors: { commandTimeout: commandTimeoutMs, saveTimeout: '2ms' * commandTimeoutMs },
    telemetry: [prometheus(), openTelemetry()],
  };
}
