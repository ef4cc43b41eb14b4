import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { installPackages } from '../support/packages/install-packages.js';
import { outsideEnvironment } from '../support/processes/processes.js';
import { projectRoot } from '../support/project-root.js';
import { INSTALL_TIMEOUT_MS, useTarball } from './support/describe-consumers.js';

const NAME = 'nestjs-idempotency-client';
const BUNDLER = { esbuild: '0.28.2' };
const UUID = /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/;

const tarball = useTarball({}, 'packages/client');

interface Manifest {
  readonly version: string;
  readonly license: string;
  readonly engines: object;
}

const manifestIn = (folder: string) =>
  JSON.parse(readFileSync(join(projectRoot, folder, 'package.json'), 'utf8')) as Manifest;

describe("the client's tarball", () => {
  it('holds what was built of it, its documents, and nothing else', () => {
    const files = tarball.packed.files.filter((file) => !file.endsWith('.d.ts'));
    expect(files).toEqual([
      ...['CHANGELOG.md', 'LICENSE', 'README.md'],
      ...['dist/cjs/index.js', 'dist/cjs/package.json', 'dist/esm/index.js'],
      'package.json',
    ]);
  });

  it('has the version, license and versions of Node of the server', () => {
    const { version, license, engines } = manifestIn('.');
    expect(manifestIn('packages/client')).toMatchObject({ version, license, engines });
  });
});

describe('an empty project that has installed it', () => {
  const root = join(tarball.folder, 'project');

  const run = async (program: string, ...args: string[]) => {
    const { stdout } = await promisify(execFile)(program, args, {
      cwd: root,
      env: outsideEnvironment(),
    });
    return stdout.trim();
  };

  beforeAll(async () => {
    await mkdir(root);
    await installPackages(root, {
      type: 'commonjs',
      dependencies: { [NAME]: `file:${tarball.packed.tarball}` },
    });
  }, INSTALL_TIMEOUT_MS);

  it('has one package', async () => {
    const { dependencies } = JSON.parse(await run('npm', 'ls', '--all', '--json')) as {
      dependencies: object;
    };
    expect(Object.keys(dependencies)).toEqual([NAME]);
    expect(dependencies).not.toHaveProperty([NAME, 'dependencies']);
    const installed = await readFile(join(root, 'node_modules/.package-lock.json'), 'utf8');
    const { packages } = JSON.parse(installed) as { packages: object };
    expect(Object.keys(packages)).toEqual([`node_modules/${NAME}`]);
  });

  it.each(['require', 'import'])('loads it by %s()', async (load) => {
    const script = `(async () => {
      const { idempotentFetch, newIdempotencyKey } = await ${load}('${NAME}');
      console.log(typeof idempotentFetch, newIdempotencyKey());
    })()`;
    const [type, key] = (await run(process.execPath, '--eval', script)).split(' ');
    expect(type).toBe('function');
    expect(key).toMatch(UUID);
  });

  it('has one copy, however it is loaded', async () => {
    const script = `import('${NAME}').then(({ IdempotentFetchError }) =>
      console.log(IdempotentFetchError === require('${NAME}').IdempotentFetchError))`;
    expect(await run(process.execPath, '--eval', script)).toBe('true');
  });

  it(
    'is bundled for browsers, with nothing but what is used',
    async () => {
      const tools = join(tarball.folder, 'tools');
      await mkdir(tools);
      await installPackages(tools, { type: 'module', dependencies: BUNDLER });
      const source = `import { newIdempotencyKey } from '${NAME}';\nconsole.log(newIdempotencyKey());\n`;
      await writeFile(join(root, 'page.mjs'), source);
      const flags = ['--bundle', '--platform=browser', '--outfile=bundle.js'];
      await run(
        join(tools, 'node_modules/.bin/esbuild'),
        'page.mjs',
        ...flags,
        '--log-level=error',
      );
      expect(await readFile(join(root, 'bundle.js'), 'utf8')).not.toMatch(/fetch|require/i);
      expect(await run(process.execPath, 'bundle.js')).toMatch(UUID);
    },
    INSTALL_TIMEOUT_MS,
  );
});
