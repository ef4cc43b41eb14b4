import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { projectRoot } from '../../support/project-root.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';

jest.setTimeout(60_000);

/** Installs a redis-server at the second attempt, and Chromium never. */
const APT = `#!/bin/sh
echo "$@" >> "$FOLDER/calls"
case "$*" in
*--version) exit 0 ;;
*update) exec /usr/bin/touch "$FOLDER/lists" ;;
esac
test -e "$FOLDER/lists" || exit 100
case "$*" in
*chromium*) exit 100 ;;
*redis-server*) printf '#!/bin/sh\\necho v=7.0.15\\n' > "$FOLDER/redis-server"; /bin/chmod +x "$FOLDER/redis-server" ;;
esac`;
const SUDO = `#!/bin/sh
shift
exec "$@"`;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'provision-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Provisions on a machine whose PATH holds only what is planted. */
function provision(names: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const program = join(projectRoot, 'test/support/provision/main.ts');
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [...typescriptNodeOptions, program, ...names],
    { env: { PATH: folder, FOLDER: folder, ...env }, encoding: 'utf8' },
  );
  const calls = join(folder, 'calls');
  const apt = existsSync(calls) ? readFileSync(calls, 'utf8').trim().split('\n') : [];
  return { status, stdout, stderr, apt: apt.filter((call) => call !== '--version') };
}

function plant(name: string, script: string): void {
  writeFileSync(join(folder, name), script, { mode: 0o755 });
}

describe('What the tests need', () => {
  it("is installed all at once, with a wait for the package manager's lock, and one by one where that fails", () => {
    plant('apt-get', APT);
    plant('sudo', SUDO);
    const { status, stdout, stderr, apt } = provision(['redis', 'chromium', 'nats']);
    const call = (rest: string) => `-qq -o DPkg::Lock::Timeout=300 ${rest}`;
    const install = (packages: string) => call(`install -y --no-install-recommends ${packages}`);
    const packages = /redis-server chromium( nats-server)?$/.exec(apt[0]!)![0];
    expect(apt.slice(0, 4)).toEqual([
      install(packages),
      call('update'),
      install(packages),
      install('redis-server'),
    ]);
    expect(stdout).toContain('redis-server 7.0.15');
    expect(stderr).toContain('!! THE TESTS IN A BROWSER ARE LEFT OUT: Chromium');
    expect(status).toBe(3);
  });

  it('is not installed where a variable names an invalid one', () => {
    plant('apt-get', APT);
    const { status, stderr, apt } = provision(['c-compiler'], { CC: '/absent/cc' });
    expect(stderr).toContain('CC names /absent/cc, which is not a C compiler.');
    expect(apt).toEqual([]);
    expect(status).toBe(1);
  });

  it('stops the tests where it is Redis', () => {
    const { status, stderr } = provision(['redis']);
    expect(stderr).toContain('!! THE TESTS ON REDIS CANNOT RUN');
    expect(status).toBe(1);
  });
});
