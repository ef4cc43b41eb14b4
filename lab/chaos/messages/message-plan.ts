import type { CrashPoint } from '../../faults/messages/worker/settings.js';

/** All that a run depends on; the same plan draws the same messages, consumers and faults. */
export interface MessagePlan {
  readonly messages: number;
  /** How many times a message is published, copies included, over all messages. */
  readonly deliveries: number;
  readonly consumers: number;
  readonly prefetch: number;
  readonly queue: 'quorum' | 'classic';
  /** `kill -9` of a consumer, half of them at any instant, half at a named point. */
  readonly kills: number;
  /** The named points, one after the other. */
  readonly points: readonly CrashPoint[];
  /** Channels closed by their consumer, by the broker, and by a connection that breaks: a third each. */
  readonly closes: number;
  /** Consumers that stand still for longer than their lease. */
  readonly pauses: number;
  readonly seed: number;
  readonly leaseMs: number;
  /** How long a handler takes until it has its effect. */
  readonly effectMs: number;
  readonly whenInProgress: 'wait' | 'reject';
  /** The name under which the documentation shows the figures. */
  readonly report: string | undefined;
}
