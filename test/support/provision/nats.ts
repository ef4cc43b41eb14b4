/**
 * Sees to it that the tests of NATS's consumers have a server to start.
 *
 * The package's own service, which Debian may start on port 4222, is left alone: the tests start servers of their own
 * on free ports.
 */
import { spawnSync } from 'node:child_process';
import { findNats } from '../nats-server.js';
import { findOrLeaveOut } from './find-or-leave-out.js';

findOrLeaveOut({
  name: 'nats-server',
  debianPackages: ['nats-server'],
  variable: 'NATS_SERVER_BIN',
  find: () => {
    const program = findNats();
    if (program === undefined) return undefined;
    const { stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' });
    return /^nats-server: \S+/.exec(stdout)?.[0];
  },
  tests: 'The tests on NATS',
  elsewhere: '"brew install nats-server" (macOS)',
});
