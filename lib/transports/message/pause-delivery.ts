import { jittered, monotonicNow } from '../../core/util/time.js';
import type { Delivery } from './deliveries/delivery.js';

/** How often a broker that counts heartbeats gets one while a message is held. */
const KEEP_ALIVE_MS = 1_000;

/**
 * Keeps a message for about `ms` milliseconds.
 *
 * @returns whether it is still ours then.
 */
export async function pauseDelivery(delivery: Delivery, ms: number): Promise<boolean> {
  const { revoked } = delivery;
  const until = monotonicNow() + jittered(ms);
  for (;;) {
    if (revoked?.aborted === true) return false;
    const leftMs = until - monotonicNow();
    if (leftMs <= 0) return true;
    const requested = delivery.requestedAck;
    await pause(delivery, Math.min(leftMs, KEEP_ALIVE_MS));
    // An exception filter that has taken its time to say what is to become of it.
    if (delivery.requestedAck !== requested) return true;
    await delivery.keepAlive();
  }
}

/** Ends early when the broker has taken the message back, or somebody says what is to become of it. */
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
