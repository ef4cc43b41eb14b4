import type { Leak } from '../../lab/measure/growth/leaks.js';

/** The transports of the operations. */
export const WAYS = [
  'express',
  'fastify',
  'rabbitmq',
  'call',
  'graphql',
  'socket.io',
  'ws',
] as const;

export type WayName = (typeof WAYS)[number];

/** The subject of the soak. */
export interface SoakSetup {
  readonly way: WayName;
  readonly redisUrl: string;
  readonly rabbitMqPort?: number | undefined;
  /** What every request leaves behind, so that the soak itself can be tested. */
  readonly leaks?: readonly Exclude<Leak, 'socket'>[];
  /** The end of some attempts is emitted twice, and that of others never, for the same reason. */
  readonly misreportsEnds?: boolean;
}
