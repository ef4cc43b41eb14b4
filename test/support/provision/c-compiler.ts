/**
 * Sees to it that a library can be compiled that moves the clock of a redis-server. Unlike Redis, a machine
 * without a C compiler can still run all the other tests: they go on, and this says what is left out. A CC
 * that is wrong stops them.
 */
import { findCompiler } from '../server-clock/compiler.js';
import { findOrInstall } from './find-or-install.js';

try {
  if (process.platform !== 'linux') throw new Error('LD_PRELOAD is a thing of Linux.');
  const { version } = findOrInstall({
    name: 'C compiler',
    debianPackages: ['gcc', 'libc6-dev'],
    variable: 'CC',
    find: findCompiler,
  });
  console.log(version);
} catch (error) {
  console.error(
    [
      '',
      "!! THE TESTS THAT MOVE A SERVER'S CLOCK ARE LEFT OUT (test/faults/failover/server-clock.test.ts)",
      `!! ${error instanceof Error ? error.message : String(error)}`,
      '!! To run them on Linux, either',
      '!!   - install a C compiler: "sudo apt-get install gcc libc6-dev" (Debian, Ubuntu), or',
      '!!   - name one: CC=/path/to/cc npm test',
      '',
    ].join('\n'),
  );
  if (process.env.CC !== undefined) process.exitCode = 1;
}
