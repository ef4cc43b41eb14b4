import { randomUUID } from 'node:crypto';
import { Client } from 'pg';

/** The prefix of each test database. */
export const DATABASE_PREFIX = 'test_';

/** Settings by their names, as `ALTER DATABASE` takes them: `{ deadlock_timeout: '50ms' }`. */
export type DatabaseSettings = Readonly<Record<string, string>>;

/**
 * Creates an empty database.
 *
 * @param server - the URL of another database of the server, with the right to create one.
 * @param settings - the initial settings of sessions in it.
 * @returns its URL.
 */
export async function newDatabase(
  server: string,
  settings: DatabaseSettings = {},
): Promise<string> {
  const name = `${DATABASE_PREFIX}${randomUUID().replaceAll('-', '')}`;
  const client = new Client({ connectionString: server });
  await client.connect();
  try {
    await client.query(`CREATE DATABASE ${name}`);
    for (const [setting, value] of Object.entries(settings)) {
      await client.query(`ALTER DATABASE ${name} SET ${setting} = ${client.escapeLiteral(value)}`);
    }
  } finally {
    await client.end();
  }
  return Object.assign(new URL(server), { pathname: `/${name}` }).href;
}
