import type { IdempotencyStore } from 'nestjs-idempotency';
import type { RedisStoreOptions } from 'nestjs-idempotency/redis';
import { loadEntry } from '../../library/built-entry.js';
import type { OpenContender, Surroundings } from '../contender.js';

/** Rounds of first requests leave more records than the default allows. */
const MOST_RECORDS = 5_000_000;
/** A machine that stalls is to make a round slow, and not to make it fail. */
const COMMAND_TIMEOUT_MS = 10_000;

interface Entries {
  redis: typeof import('nestjs-idempotency/redis');
  memory: typeof import('nestjs-idempotency/memory');
  postgres: typeof import('nestjs-idempotency/postgres');
}

/** The built library, with the defaults that its users get, but for one time limit. */
function withStore(open: (surroundings: Surroundings) => Promise<IdempotencyStore>): OpenContender {
  return async (surroundings) => {
    const { Idempotent, IdempotencyModule } = await loadEntry<typeof import('nestjs-idempotency')>(
      surroundings.library,
      '.',
    );
    const store: IdempotencyStore & { readonly clear?: () => void } = await open(surroundings);
    return {
      modules: [
        IdempotencyModule.forRoot({
          store,
          // An older version, to compare with, knows neither.
          ...(store.isShared && { service: 'bench' }),
          storeErrors: { commandTimeout: COMMAND_TIMEOUT_MS },
        }),
      ],
      renew: () => store.clear?.(),
      mark: Idempotent(),
      markWaiting: Idempotent({ duplicates: 'wait' }),
    };
  };
}

async function openRedis(
  { library, redisUrl }: Surroundings,
  settings: Pick<RedisStoreOptions, 'connection'> = {},
): Promise<IdempotencyStore> {
  const { redisStore } = await loadEntry<Entries['redis']>(library, './redis');
  return redisStore({ url: redisUrl, ...settings });
}

export const onRedis = withStore(openRedis);

/** Each command in a write of its own. */
export const onUnpipelinedRedis = withStore((surroundings) =>
  openRedis(surroundings, { connection: { enableAutoPipelining: false } }),
);

export const inMemory = withStore(async ({ library }) => {
  const { memoryStore } = await loadEntry<Entries['memory']>(library, './memory');
  const options = { maxRecords: MOST_RECORDS };
  try {
    return memoryStore({ ...options, allowInMemoryStorage: true });
  } catch {
    // An earlier version, to compare with, which does not know the option.
    return memoryStore(options);
  }
});

export const onPostgres = withStore(async ({ library, postgresUrl }) => {
  const { postgresStore } = await loadEntry<Entries['postgres']>(library, './postgres');
  const store = postgresStore({ url: postgresUrl });
  await store.migrate();
  return store;
});
