import type { Leak } from '../lab/measure/growth/leaks.js';

/** The ways by which operations come in. */
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

/** What is soaked. */
export interface SoakSetup {
  readonly way: WayName;
  readonly redisUrl: string;
  readonly rabbitMqPort?: number | undefined;
  /** What every request leaves behind, so that the soak itself can be put to the test. */
  readonly leaks?: readonly Exclude<Leak, 'socket'>[];
}
