import { sharedServer } from '../servers/shared/shared-server.js';
import { useServer } from '../servers/use-server.js';
import type { MysqlInstallation } from './installations.js';
import { startMysql } from './mysql-server.js';
import { newDatabase } from './new-database.js';

export interface UsedMysql {
  readonly port: number;
  /** Creates an empty database and returns its URL. It is removed when the next file begins. */
  newDatabase(): Promise<string>;
}

/**
 * A server that no other file uses at the same time, from before the tests of this file, or of a `describe`. Do not stop,
 * kill, pause or configure it: use `useServer(() => startMysql(…))` for that.
 *
 * @param installation - of a server of this file's own. By default, the machine's MariaDB, which files share.
 */
export function useMysql(installation?: MysqlInstallation): UsedMysql {
  if (installation !== undefined) return useServer(() => startMysql(installation));
  return useServer(async () => {
    const { url, port } = await sharedServer('mariadb');
    return { port, newDatabase: () => newDatabase(url) };
  });
}
