import type { StoreWarning } from '../../../core/store/idempotency-store.js';
import { forget } from '../../../core/util/maybe-async.js';

interface Reconnecting {
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'ready', listener: () => void): unknown;
}

/**
 * Clients report every failed attempt to reconnect: reports only the first one of an outage.
 * @param report - called with the error, and whether the client has ever been ready.
 */
export function reportOutages(
  client: Reconnecting,
  report: (error: Error, hasBeenReady: boolean) => unknown,
): void {
  let reported = false;
  let hasBeenReady = false;
  client.on('error', (error) => {
    if (reported) return;
    reported = true;
    forget(report(error, hasBeenReady));
  });
  client.on('ready', () => {
    hasBeenReady = true;
    reported = false;
  });
}

/** @param warned - reports an outage without a listener; returns whether an observer received it. */
export function warnOfOutage(failure: string, warned: (warning: StoreWarning) => boolean): void {
  const message = `The connection to Redis failed: ${failure}`;
  if (warned({ code: 'redis_connection_failed', message })) return;
  process.emitWarning(message, {
    type: 'IdempotencyWarning',
    code: 'IDEMPOTENCY_REDIS_CONNECTION',
  });
}
