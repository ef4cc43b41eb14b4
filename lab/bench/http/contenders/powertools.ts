import { ConflictException } from '@nestjs/common';
import type { OpenContender } from '../contender.js';
import { loadPackage } from '../load-package.js';

interface Powertools {
  readonly IdempotencyConfig: new (settings: object) => object;
  readonly makeIdempotent: (work: Work, settings: object) => Work;
}

type Work = (event: object, context: LambdaLike) => Promise<unknown>;

interface CacheLayer {
  readonly CachePersistenceLayer: new (settings: { client: unknown }) => object;
}

interface RedisPackage {
  createClient(settings: { url: string }): {
    connect(): Promise<unknown>;
    on(event: 'error', listener: () => void): unknown;
  };
}

/** It is made for Lambda: without a context of it, a running operation counts as an orphan. */
interface LambdaLike {
  readonly getRemainingTimeInMillis: () => number;
  readonly work: () => Promise<unknown>;
}

const LEASE_MS = 10_000;
const RETENTION_S = 86_400;

/**
 * `@aws-lambda-powertools/idempotency` around the handlers' work, on its cache layer and node-redis. Its check of the
 * content is off: the cache layer loses what it would compare with.
 */
export const powertools: OpenContender = async ({ redisUrl }) => {
  const { makeIdempotent, IdempotencyConfig } = loadPackage(
    '@aws-lambda-powertools/idempotency',
  ) as Powertools;
  const { CachePersistenceLayer } = loadPackage(
    '@aws-lambda-powertools/idempotency/cache',
  ) as CacheLayer;
  const client = (loadPackage('@redis/client') as RedisPackage).createClient({ url: redisUrl });
  // Without a listener it would not connect again.
  client.on('error', () => undefined);
  await client.connect();
  const once = makeIdempotent((_event, { work }) => work(), {
    persistenceStore: new CachePersistenceLayer({ client }),
    config: new IdempotencyConfig({ eventKeyJmesPath: 'key', expiresAfterSeconds: RETENTION_S }),
  });
  return {
    around: async ({ headers, body }, work) => {
      const event = { key: headers['idempotency-key'], body };
      try {
        return await once(event, { getRemainingTimeInMillis: () => LEASE_MS, work });
      } catch (error) {
        const isConflict = (error as Error).name === 'IdempotencyAlreadyInProgressError';
        throw isConflict ? new ConflictException() : error;
      }
    },
  };
};
