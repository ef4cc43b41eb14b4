/**
 * Sees to it that a library can be compiled that moves the clock of a redis-server
 * (test/faults/failover/server-clock.test.ts).
 */
import { findCompiler } from '../server-clock/compiler.js';
import { findOrLeaveOut } from './find-or-leave-out.js';

findOrLeaveOut({
  name: 'C compiler',
  debianPackages: ['gcc', 'libc6-dev'],
  variable: 'CC',
  find: () => {
    if (process.platform !== 'linux') throw new Error('LD_PRELOAD is a thing of Linux.');
    return findCompiler()?.version;
  },
  tests: "The tests that move a server's clock",
});
