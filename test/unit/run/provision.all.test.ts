import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { projectRoot } from '../../support/project-root.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';
import { PlantedProject } from './planted-project.js';
import { closureOf } from '../../run/closure.mjs';
import { NEEDED_BY, programsFor } from '../../run/programs.mjs';

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

  it('is known for each program that a file requests', () => {
    const searchesFor =
      /(?:Executable|Program|Server|spawn\w*)\(\s*'(redis|rabbitmq|nats|mosquitto|promtool)\b/g;
    const files = ['test', 'sample-app/src', 'sample-app/demo'].flatMap((root) =>
      readdirSync(join(projectRoot, root), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts'))
        .map((name) => join(root, name)),
    );
    const missing = files.flatMap((file) => {
      const text = readFileSync(join(projectRoot, file), 'utf8');
      const needed = programsFor(closureOf([file], projectRoot));
      const programs = Array.from(text.matchAll(searchesFor), ([, program]) => program!);
      return programs.filter((one) => !needed.includes(one)).map((one) => `${file}: ${one}`);
    });
    expect(missing).toEqual([]);
    expect(
      Object.values(NEEDED_BY)
        .flat()
        .filter((file) => !files.includes(file)),
    ).toEqual([]);
  });
});

describe('npm test, where a program is missing,', () => {
  const files = {
    'jest.config.cjs': `module.exports = {
      testSequencer: ${JSON.stringify(join(projectRoot, 'test/run/sequencer.mjs'))},
      projects: [{ displayName: 'push', testMatch: ['**/*.spec.cjs'], transform: {} }] };`,
    'a.spec.cjs': `it('needs none', () => undefined); 'test/support/browser/chromium.ts';`,
    'b.spec.cjs': `it('needs none', () => undefined);`,
  };

  it.each([
    { CI: 'true', failed: 1, means: 'fails' },
    { CI: undefined, failed: 0, means: 'goes on' },
  ])('$means with CI=$CI', async ({ CI, failed }) => {
    const project = new PlantedProject(files);
    try {
      const { verdict, output, status } = await project.run({ env: { PATH: folder, CI } });
      expect(output).toContain('!! THE TESTS IN A BROWSER ARE LEFT OUT');
      expect(verdict).toEqual({ passed: 2, failed, flaky: [] });
      expect(status).toBe(failed);
    } finally {
      project.remove();
    }
  });

  it('requests none that the chosen files do not need', async () => {
    const project = new PlantedProject(files);
    try {
      const { output, status } = await project.run({ args: ['b.spec'], env: { PATH: folder } });
      expect(output).not.toContain('LEFT OUT');
      expect(status).toBe(0);
    } finally {
      project.remove();
    }
  });
});
