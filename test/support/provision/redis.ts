/**
 * Sees to it that a redis-server can be started, before the tests need one. A script, not a test set-up,
 * because it may have to install a package: `npm test` runs it, and so may you.
 *
 * The package's own service, which Debian may start on port 6379, is left alone: the tests start servers
 * of their own on free ports.
 */
import { spawnSync } from 'node:child_process';
import { findOrInstall } from './find-or-install.js';

try {
  const [major = 0, minor = 0, patch = 0] = findOrInstall({
    name: 'redis-server',
    debianPackages: ['redis-server'],
    variable: 'REDIS_SERVER_BIN',
    find: serverVersion,
  });
  const version = `redis-server ${major}.${minor}.${patch}`;
  if (major < 6 || (major === 6 && minor < 2)) throw new Error(`${version} is too old.`);
  console.log(version);
} catch (error) {
  console.error(
    [
      error instanceof Error ? error.message : error,
      'The tests run against real redis-servers, version 6.2 or later. Either',
      '  - install one: "sudo apt-get install redis-server" (Debian, Ubuntu), "brew install redis" (macOS), or',
      '  - name the program of one: REDIS_SERVER_BIN=/path/to/redis-server npm test',
    ].join('\n'),
  );
  process.exitCode = 1;
}

function serverVersion(): number[] | undefined {
  const server = process.env.REDIS_SERVER_BIN ?? 'redis-server';
  const { status, stdout } = spawnSync(server, ['--version'], { encoding: 'utf8' });
  const [, text] = status === 0 ? (/v=(\d+\.\d+\.\d+)/.exec(stdout) ?? []) : [];
  return text?.split('.').map(Number);
}
