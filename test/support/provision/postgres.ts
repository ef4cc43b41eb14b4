/**
 * Sees to it that the tests of the PostgreSQL store have a second version to run on, besides the one that npm
 * installs: without it, those on that one run all the same.
 *
 * The package's own cluster, which Debian may start on port 5432, is left alone: the tests start servers of their
 * own on free ports.
 */
import { findPostgres } from '../installed-postgres.js';
import { findOrLeaveOut } from './find-or-leave-out.js';

findOrLeaveOut({
  name: 'PostgreSQL 13 or later',
  debianPackages: ['postgresql'],
  variable: 'POSTGRES_BIN',
  find: () => {
    const found = findPostgres();
    return found && `PostgreSQL ${found.majorVersion} (${found.binaries})`;
  },
  tests: 'The tests on a second PostgreSQL',
  elsewhere: '"brew install postgresql@15" (macOS)',
  named: { what: 'the folder of its programs', path: '/path/to/bin' },
});
