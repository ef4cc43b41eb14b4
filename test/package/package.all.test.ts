import { execFile } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { projectRoot } from '../support/project-root.js';
import { describeConsumers, useTarball } from './support/describe-consumers.js';
import { filesIn } from './support/files-in.js';

const tarball = useTarball({ declarations: true });

beforeAll(() => promisify(execFile)('tar', ['-xzf', tarball.packed.tarball, '-C', tarball.folder]));

describe('the tarball', () => {
  it('holds the declarations of each file of lib, for both kinds of module, and no others', () => {
    const declarations = ['esm', 'cjs'].flatMap((format) =>
      filesIn('lib', '.ts').map((source) =>
        source.replace(/^lib/, `dist/${format}`).replace(/\.ts$/, '.d.ts'),
      ),
    );
    const { files } = tarball.packed;
    expect(files.filter((file) => file.endsWith('.d.ts'))).toEqual(declarations.sort());
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

  it.each(['esm', 'cjs'])('keeps the comments of the build as %s', (format) => {
    const dist = join(tarball.folder, 'package/dist', format);
    const texts = readdirSync(dist, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.js'))
      .map((file) => readFileSync(join(dist, file), 'utf8'));
    const explained = texts.filter((text) => text.includes('Makes operations safe to retry'));
    expect(explained).toHaveLength(1);
  });
});

describeConsumers(tarball, [
  {
    name: 'an ESM application on Nest 12, without ioredis',
    type: 'module',
    dependencies: {
      '@nestjs/common': '12.5.1',
      '@nestjs/core': '12.5.1',
      '@nestjs/platform-express': '12.5.1',
      '@nestjs/swagger': '12.0.2',
      '@nestjs/terminus': '12.1.0',
      // The oldest that the package allows.
      '@opentelemetry/api': '1.9.0',
      'prom-client': '15.1.3',
    },
  },
]);
