import type { QueueDepth } from '../../../test/support/rabbitmq/rabbitmq-queues.js';
import type { Effect, EventLine } from '../worker/lines.js';
import type { WireLog } from './wire/wire-log.js';

/** All that is known of a run once its consumers have ended; only `events` has the library's own word. */
export interface MessageEvidence {
  /** The keys of all messages; how often each was published. */
  readonly published: ReadonlyMap<string, number>;
  readonly ledger: readonly Effect[];
  readonly events: readonly EventLine[];
  readonly wire: Pick<WireLog, 'deliveries' | 'closes'>;
  /** When the processes died that were killed from outside, by the consumer's name. */
  readonly deaths: ReadonlyMap<string, number>;
  /** The consumers that stood still for longer than their lease. */
  readonly stoodStill: ReadonlySet<string>;
  /** How many channels each consumer closed by command, or had cut deliberately. */
  readonly closesAsked: ReadonlyMap<string, number>;
  /** What Node had to warn consumers of. */
  readonly warnings: readonly string[];
  /** When the consumers got the command to end, in milliseconds since the epoch. */
  readonly endedAt: number;
  /** What is left in the queue. */
  readonly left: Pick<QueueDepth, 'ready' | 'unacked'>;
  /** How many messages the broker has dead-lettered. */
  readonly deadLettered: number;
}
