/**
 * Sees to it that a redis-server can be started, before the tests need one. A script, not a test set-up,
 * because it may have to install a package: `npm test` runs it, and so may you.
 *
 * The package's own service, which Debian may start on port 6379, is left alone: the tests start servers
 * of their own on free ports.
 */
import { spawnSync } from 'node:child_process';

const OLDEST = [6, 2];

const found = serverVersion();
if (found === undefined) install();
const version = found ?? serverVersion();
if (version === undefined) fail('redis-server was installed, but does not start.');
if (isOlder(version, OLDEST)) {
  fail(
    `redis-server ${version.join('.')} is too old: the tests need ${OLDEST.join('.')} or later.`,
  );
}
console.log(`redis-server ${version.join('.')}`);

/** @returns {number[] | undefined} */
function serverVersion() {
  const server = process.env.REDIS_SERVER_BIN ?? 'redis-server';
  const { status, stdout } = spawnSync(server, ['--version'], { encoding: 'utf8' });
  const [, text] = status === 0 ? (/v=(\d+\.\d+\.\d+)/.exec(stdout) ?? []) : [];
  return text?.split('.').map(Number);
}

function install() {
  if (process.env.REDIS_SERVER_BIN !== undefined) {
    fail(`REDIS_SERVER_BIN names ${process.env.REDIS_SERVER_BIN}, which is no redis-server.`);
  }
  if (!succeeds('apt-get', ['--version'])) fail('redis-server was not found on PATH.');
  const asRoot = process.getuid?.() === 0 ? [] : ['sudo', '-n'];
  if (asRoot.length > 0 && !succeeds('sudo', ['-n', 'true'])) {
    fail('redis-server was not found on PATH, and installing it needs root.');
  }
  console.log('redis-server was not found: installing the package of that name with apt-get.');
  const apt = [...asRoot, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', '-q'];
  const addServer = [...apt, 'install', '-y', '--no-install-recommends', 'redis-server'];
  // A fresh image has no package lists.
  if (!run(addServer) && !(run([...apt, 'update']) && run(addServer))) {
    fail('apt-get could not install redis-server.');
  }
}

function run([command, ...args]) {
  return spawnSync(command, args, { stdio: ['ignore', 'inherit', 'inherit'] }).status === 0;
}

function succeeds(command, args) {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}

function isOlder(version, oldest) {
  const [major, minor] = version;
  return major < oldest[0] || (major === oldest[0] && minor < oldest[1]);
}

function fail(reason) {
  console.error(
    [
      reason,
      'The tests run against real redis-servers, version 6.2 or later. Either',
      '  - install one: "sudo apt-get install redis-server" (Debian, Ubuntu), "brew install redis" (macOS), or',
      '  - name the program of one: REDIS_SERVER_BIN=/path/to/redis-server npm test',
    ].join('\n'),
  );
  process.exit(1);
}
