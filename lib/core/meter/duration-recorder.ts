import type { WaitEnd } from '../record/events.js';
import type { StoreCommand } from '../record/idempotency-events.js';
import type { StoreErrorType } from '../util/errors.js';
import type { AttemptOutcome } from './meter-reading.js';

/**
 * Gets each duration as the meter counts it, in the async context of its request: for an exporter that cannot read
 * histograms. It must not throw.
 */
export interface DurationRecorder {
  attempt(operation: string, outcome: AttemptOutcome, ms: number): void;
  wait(operation: string, end: WaitEnd, ms: number): void;
  command(command: StoreCommand, errorType: StoreErrorType | undefined, ms: number): void;
}
