import { randomUUID } from 'node:crypto';
import { createConnection, type RowDataPacket } from 'mysql2/promise';

/** The prefix of each test database. */
export const DATABASE_PREFIX = 'test_';

/**
 * Creates an empty database.
 *
 * @param server - the URL of the server, with the right to create one.
 * @returns its URL.
 */
export async function newDatabase(server: string): Promise<string> {
  const name = `${DATABASE_PREFIX}${randomUUID().replaceAll('-', '')}`;
  const connection = await createConnection(server);
  try {
    await connection.query(`CREATE DATABASE ${name}`);
  } finally {
    await connection.end();
  }
  return Object.assign(new URL(server), { pathname: `/${name}` }).href;
}

/** Drops those that {@link newDatabase} has created, after it has ended their sessions. */
export async function dropDatabases(server: string): Promise<void> {
  const connection = await createConnection(server);
  try {
    const [sessions] = await connection.query<RowDataPacket[]>(
      'SELECT id FROM information_schema.processlist WHERE db LIKE ?',
      [`${DATABASE_PREFIX}%`],
    );
    for (const { id } of sessions as { id: number }[]) {
      // It may have ended meanwhile.
      await connection.query(`KILL ${id}`).catch(() => undefined);
    }
    const [databases] = await connection.query<RowDataPacket[]>(
      'SELECT schema_name AS name FROM information_schema.schemata WHERE schema_name LIKE ?',
      [`${DATABASE_PREFIX}%`],
    );
    for (const { name } of databases as { name: string }[]) {
      await connection.query(`DROP DATABASE ${name}`);
    }
  } finally {
    await connection.end();
  }
}
