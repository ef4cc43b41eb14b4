import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { builtPackage } from '../support/packages/built-package.js';
import { outsideEnvironment } from '../support/processes/processes.js';
import { projectRoot } from '../support/project-root.js';

const run = promisify(execFile);

interface Loaded {
  readonly byImport: readonly string[];
  readonly byApplication: readonly string[];
  readonly replayed: string;
}

/** What one import of the package may load. */
const MOST_FILES = 90;

const built = await builtPackage();

describe.each(['esm', 'cjs'])('the build as %s', (format) => {
  const dist = join(built, 'dist', format);
  const files = readdirSync(dist, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.js'))
    .map((file) => ({ file, text: readFileSync(join(dist, file), 'utf8') }));

  it('has every class under its own name', () => {
    const renamed = files.flatMap(({ text }) => text.match(/\bclass \w+\$\d+/g) ?? []);
    expect(renamed).toEqual([]);
    expect(files.some(({ text }) => text.includes('class IdempotencyModule '))).toBe(true);
  });

  it('uses neither its own path nor a way to require', () => {
    const asking = files.filter(({ text }) =>
      /import\.meta|createRequire|__dirname|__filename/.test(text),
    );
    expect(asking.map(({ file }) => file)).toEqual([]);
  });

  if (format === 'cjs') {
    it('imports nothing by import(), which Jest does not support', () => {
      const importing = files.filter(({ text }) =>
        /\bimport\(/.test(text.replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '')),
      );
      expect(importing.map(({ file }) => file)).toEqual([]);
    });
  }

  it('loads no unused package, neither by an import nor by an application of one route', async () => {
    const entry = (file: string) => pathToFileURL(join(dist, file)).href;
    const script = join(projectRoot, 'test/package/support/loading-application.mjs');
    const args = [script, entry('index.js'), entry('stores/memory/index.js')];
    const { stdout } = await run(process.execPath, args, {
      cwd: built,
      env: outsideEnvironment(),
      timeout: 30_000,
    });
    const { byImport, byApplication, replayed } = JSON.parse(stdout) as Loaded;
    expect(replayed).toBe('true');
    const isOwn = (path: string) => path.startsWith(dist);
    const packageOf = (path: string) =>
      /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? path;
    const others = [...byImport, ...byApplication].filter((path) => !isOwn(path)).map(packageOf);
    expect([...new Set(others)]).toEqual(['safe-stable-stringify']);
    expect(byImport.filter(isOwn).length).toBeLessThanOrEqual(MOST_FILES);
    expect(byApplication.filter(isOwn)).toContain(join(dist, 'stores/memory/index.js'));
    expect(byApplication.filter(isOwn).join()).not.toMatch(/redis|postgres|graphql/);
  });
});
