/**
 * Sees to it that the tests of the PostgreSQL store have a second version to run on, besides the one that npm
 * installs. Unlike Redis, a machine without it can still run all the other tests: they go on, and this says what
 * is left out. A POSTGRES_BIN that is wrong stops them.
 *
 * The package's own cluster, which Debian may start on port 5432, is left alone: the tests start servers of their
 * own on free ports.
 */
import { findPostgres } from '../installed-postgres.js';
import { findOrInstall } from './find-or-install.js';

try {
  const { binaries, majorVersion } = findOrInstall({
    name: 'PostgreSQL 13 or later',
    debianPackages: ['postgresql'],
    variable: 'POSTGRES_BIN',
    find: findPostgres,
  });
  console.log(`PostgreSQL ${majorVersion} (${binaries})`);
} catch (error) {
  console.error(
    [
      '',
      '!! THE TESTS ON AN INSTALLED POSTGRESQL ARE LEFT OUT, those on the version from npm are not',
      `!! ${error instanceof Error ? error.message : String(error)}`,
      '!! To run them, either',
      '!!   - install version 13 or later: "sudo apt-get install postgresql" (Debian, Ubuntu), "brew install postgresql@15" (macOS), or',
      '!!   - name the folder of its programs: POSTGRES_BIN=/path/to/bin npm test',
      '',
    ].join('\n'),
  );
  if (process.env.POSTGRES_BIN !== undefined) process.exitCode = 1;
}
