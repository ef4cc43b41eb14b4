import { jittered, monotonicNow } from '../../core/util/time.js';
import type { Delivery } from './deliveries/delivery.js';

/** The time between two heartbeats during a pause. */
const KEEP_ALIVE_MS = 1_000;

/** Keeps a message unacknowledged for about `ms` milliseconds. @returns `false` if the broker has revoked it. */
export async function pauseDelivery(delivery: Delivery, ms: number): Promise<boolean> {
  const { revoked } = delivery;
  const until = monotonicNow() + jittered(ms);
  for (;;) {
    if (revoked?.aborted === true) return false;
    const leftMs = until - monotonicNow();
    if (leftMs <= 0) return true;
    const requested = delivery.requestedAck;
    await pause(delivery, Math.min(leftMs, KEEP_ALIVE_MS));
    // An exception filter has requested an ack late.
    if (delivery.requestedAck !== requested) return true;
    await delivery.keepAlive();
  }
}

/** Ends early when the broker revokes the message or the application requests an ack. */
function pause(delivery: Delivery, ms: number): Promise<void> {
  const { revoked } = delivery;
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      revoked?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    revoked?.addEventListener('abort', end);
    delivery.onRequestedAck(end);
  });
}
