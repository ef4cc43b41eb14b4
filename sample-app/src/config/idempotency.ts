import type { ConfigService } from '@nestjs/config';
import { fileBlobs } from 'nestjs-idempotency/blobs/file';
import { openTelemetry } from 'nestjs-idempotency/opentelemetry';
import { prometheus } from 'nestjs-idempotency/prometheus';
import type { Persistence } from '../persistence/persistence.js';
import type { Environment } from './environment.js';

/** Other applications may use the same store. */
export const SERVICE = 'sample-app';

/** The module's options: where records and large responses are stored, how long an attempt may run, and where its numbers and traces go. */
export function idempotencyOptions(
  config: ConfigService<Environment, true>,
  { records }: Persistence,
) {
  return {
    service: SERVICE,
    ...records,
    blobs: fileBlobs({ directory: config.get('BLOBS_DIRECTORY', { infer: true }) }),
    lease: {
      duration: config.get('LEASE', { infer: true }),
      maxExecution: config.get('MAX_EXECUTION', { infer: true }),
    },
    storeErrors: {
      commandTimeout: config.get('COMMAND_TIMEOUT', { infer: true }),
      saveTimeout: config.get('SAVE_TIMEOUT', { infer: true }),
    },
    telemetry: [prometheus(), openTelemetry()],
    // The console then says which process had a record, and how long each attempt took.
    annotate: true,
  };
}
