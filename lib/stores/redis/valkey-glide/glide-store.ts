import {
  of,
  resolveOptions,
  type Defaulted,
  type Schema,
} from '../../../core/options/option-schema.js';
import { RedisIdempotencyStore } from '../redis-idempotency-store.js';
import type { CommonOptions } from '../redis-store-options.js';
import type { ValkeyGlideClient } from './client-types.js';
import { glideLink } from './glide-link.js';

/** Options of {@link glideStore}. */
export interface GlideStoreOptions extends Pick<CommonOptions, 'keyPrefix' | 'journal'> {
  /**
   * A `GlideClient` or a `GlideClusterClient` of `@valkey/valkey-glide` 2, which the store neither closes nor changes.
   * - Set `requestTimeout` to no less than `storeErrors.commandTimeout`: GLIDE's 250 ms are else the time that one attempt
   *   of a step has, and a server that takes longer still executes it.
   * - Leave `readFrom` at `primary`: a replica may not have a record yet.
   * - Set `databaseId` in its options, and do not call `select()` on it.
   * - Close it in `onApplicationShutdown`, not in `onModuleDestroy`: Nest calls the latter before the library waits for
   *   running operations, whose outcomes could then not be stored.
   */
  readonly client: ValkeyGlideClient;

  /**
   * Only `false`: GLIDE takes subscriptions when a client is created, so duplicates that wait (`duplicates: 'wait'`) poll
   * at least four times a second.
   * @defaultValue false
   */
  readonly push?: false | undefined;
}

type Own = Pick<GlideStoreOptions, 'push'>;

export const GLIDE_OWN: Schema<Own, Defaulted<Own>> = {
  push: of(
    'false (GLIDE takes subscriptions only when a client is created: duplicates that wait poll)',
    (value) => value === false,
    { default: false as const },
  ),
};

const REMEDIES = new Map([
  [
    'waitReplicas',
    'WAIT requires a connection of its own, which GLIDE does not open: use redisStore or nodeRedisStore, whose records are the same.',
  ],
  ...['url', 'connection', 'addresses'].map(
    (name) =>
      [
        name,
        'The store opens no connection by GLIDE: glideStore({ client: await GlideClient.createClient({ addresses }) }).',
      ] as const,
  ),
]);

/**
 * Stores records in Redis ≥ 6.2 or Valkey by `@valkey/valkey-glide` 2: one server or a Cluster. The records are those of
 * `redisStore`: another process may use ioredis.
 * @example
 * ```ts
 * const client = await GlideClient.createClient({ addresses: [{ host: 'localhost' }], requestTimeout: 1_000 });
 * IdempotencyModule.forRoot({ store: glideStore({ client }) })
 * ```
 * @throws {@link IdempotencyOptionsError} when an option is invalid.
 */
export function glideStore(options: GlideStoreOptions): RedisIdempotencyStore {
  const level = { others: ['client', 'keyPrefix', 'journal'], remedies: REMEDIES };
  const { push } = resolveOptions('glideStore', GLIDE_OWN, options, level);
  const { client, keyPrefix, journal } = options;
  return new RedisIdempotencyStore({
    keyPrefix,
    journal,
    push,
    factory: 'glideStore',
    link: () => glideLink(client),
  });
}
