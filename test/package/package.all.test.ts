import { execFile } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { projectRoot } from '../support/project-root.js';
import { describeConsumers, useTarball } from './describe-consumers.js';

interface Manifest {
  readonly bin: Readonly<Record<string, string>>;
  readonly exports: Readonly<
    Record<string, string | Readonly<Record<'import' | 'require', { readonly default: string }>>>
  >;
}

const run = promisify(execFile);

const tarball = useTarball();

function filesIn(folder: string, ending: string): string[] {
  const names = readdirSync(join(projectRoot, folder), { recursive: true, encoding: 'utf8' });
  return names.filter((name) => name.endsWith(ending)).map((name) => `${folder}/${name}`);
}

beforeAll(() => run('tar', ['-xzf', tarball.packed.tarball, '-C', tarball.folder]));

describe('the tarball', () => {
  it('holds what was built from lib, the scripts, the SQL, the papers, and nothing else', () => {
    const { bin, exports } = JSON.parse(
      readFileSync(join(projectRoot, 'package.json'), 'utf8'),
    ) as Manifest;
    const entries = Object.values(exports)
      .filter((entry) => typeof entry === 'object')
      .flatMap(({ import: asModule, require: asCommonJs }) => [
        asModule.default,
        asCommonJs.default,
      ])
      .concat(Object.values(bin))
      .map((file) => file.replace(/^\.\//, ''));
    const declarations = ['esm', 'cjs'].flatMap((format) =>
      filesIn('lib', '.ts').map((source) =>
        source.replace(/^lib/, `dist/${format}`).replace(/\.ts$/, '.d.ts'),
      ),
    );
    const isShared = (file: string) => /^dist\/(esm|cjs)\/shared\/[a-z.-]+\.js$/.test(file);
    const built = [...entries, ...declarations, 'dist/cjs/package.json'];
    const papers = ['CHANGELOG.md', 'LICENSE', 'README.md', 'SECURITY.md', 'package.json'];
    const shipped = [...filesIn('lua', '.lua'), ...filesIn('sql', '.sql')];
    const { files } = tarball.packed;
    expect(files.filter((file) => !isShared(file))).toEqual(
      [...built, ...shipped, ...papers].sort(),
    );
  });

  it('documents the same defaults in its declarations as in the sources, and nothing internal', () => {
    const count = (text: string) => text.split('@defaultValue').length - 1;
    const declarationIn = (format: string, source: string) => {
      const file = source.replace(/^lib/, `package/dist/${format}`).replace(/\.ts$/, '.d.ts');
      return readFileSync(join(tarball.folder, file), 'utf8');
    };
    for (const source of filesIn('lib', '.ts')) {
      const declared = declarationIn('esm', source);
      expect(declarationIn('cjs', source)).toBe(declared);
      const written = readFileSync(join(projectRoot, source), 'utf8');
      expect([source, count(declared)]).toEqual([source, count(written)]);
      expect(declared).not.toContain('@internal');
    }
  });

  it.each(['esm', 'cjs'])('keeps the comments of what is built as %s', (format) => {
    const dist = join(tarball.folder, 'package/dist', format);
    const texts = readdirSync(dist, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.js'))
      .map((file) => readFileSync(join(dist, file), 'utf8'));
    const explained = texts.filter((text) => text.includes('Makes operations safe to repeat'));
    expect(explained).toHaveLength(1);
  });
});

describeConsumers(tarball, [
  {
    name: 'a CommonJS application on Nest 11, with ioredis 5',
    type: 'commonjs',
    dependencies: {
      '@nestjs/common': '11.2.10',
      '@nestjs/core': '11.2.10',
      '@nestjs/platform-express': '11.2.10',
      '@nestjs/swagger': '11.0.0',
      bullmq: '5.81.5',
      graphql: '16.15.0',
      ioredis: '5.9.2',
      msgpackr: '2.1.3',
    },
  },
  {
    name: 'an ESM application on Nest 12, without ioredis',
    type: 'module',
    dependencies: {
      '@nestjs/common': '12.5.1',
      '@nestjs/core': '12.5.1',
      '@nestjs/platform-express': '12.5.1',
      '@nestjs/swagger': '12.0.2',
    },
  },
]);
