import type { DynamicModule, INestApplication, NestInterceptor, Type } from '@nestjs/common';

export type Platform = 'express' | 'fastify';

/** What a contender is given. */
export interface Surroundings {
  readonly platform: Platform;
  readonly redisUrl: string;
  readonly postgresUrl: string;
  /** Folder of the built library. */
  readonly library: string;
}

/** One way to make the routes of the app repeatable: whatever it leaves out is not there. */
export interface Contender {
  readonly modules?: readonly (DynamicModule | Type)[];
  readonly interceptors?: readonly NestInterceptor[];
  /** Decorates the routes. */
  readonly mark?: MethodDecorator;
  /** Decorates the route `/waiting`, where that is another thing. */
  readonly markWaiting?: MethodDecorator;
  /** Stands around the work of a handler. */
  readonly around?: Around;
  readonly configure?: (app: INestApplication) => unknown;
  /** Forgets all records, where they are not in Redis. */
  readonly renew?: () => unknown;
}

export type Around = (request: WorkRequest, work: () => Promise<unknown>) => Promise<unknown>;

/** What Express and Fastify have in common. */
export interface WorkRequest {
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: unknown;
  readonly url: string;
}

export type OpenContender = (surroundings: Surroundings) => Contender | Promise<Contender>;
