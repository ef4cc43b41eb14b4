import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { projectRoot } from '../support/project-root.js';
import { packageEntries } from '../support/typescript/package-entries.mjs';
import { describeConsumers, useTarball } from './support/describe-consumers.js';
import { filesIn } from './support/files-in.js';

const tarball = useTarball({ declarations: true });

/** What it was with 22 entries, before the documentation was in it. */
const MOST_BYTES_PER_ENTRY = 141_000;

beforeAll(() => promisify(execFile)('tar', ['-xzf', tarball.packed.tarball, '-C', tarball.folder]));

describe('the tarball', () => {
  const packed = (file: string) => join(tarball.folder, 'package', file);
  const declared = () => tarball.packed.files.filter((file) => file.endsWith('.d.ts'));

  it('grows by its entries alone', () => {
    const { bytes } = tarball.packed;
    expect(bytes / packageEntries(packed('')).size).toBeLessThanOrEqual(MOST_BYTES_PER_ENTRY);
  });

  it('holds each declaration once, and for ES modules the way to it', () => {
    const ways = declared().filter((file) => !file.startsWith('dist/cjs/'));
    const entries = [...packageEntries(packed('')).values()];
    expect(ways).toEqual(entries.map(({ source }) => declarationOf('esm', source)).sort());
    for (const { source } of entries) {
      const way = declarationOf('esm', source);
      const [, path = ''] =
        /^export \* from '(\S+)\.js';\n(?:export type \{\} from '\S+';\n)*$/.exec(
          readFileSync(packed(way), 'utf8'),
        )!;
      expect(posix.join(posix.dirname(way), `${path}.d.ts`)).toBe(declarationOf('cjs', source));
    }
  });

  it('holds no declaration that no entry needs, and each that one needs', () => {
    const files = declared().filter((file) => file.startsWith('dist/cjs/'));
    const named = files.flatMap((file) =>
      Array.from(
        readFileSync(packed(file), 'utf8').matchAll(/(?:from |import\()'(\..+?)\.js'/g),
        ([, path]) => posix.join(posix.dirname(file), `${path!}.d.ts`),
      ),
    );
    const entries = [...packageEntries(packed('')).values()];
    const needed = new Set([
      ...named,
      ...entries.map(({ source }) => declarationOf('cjs', source)),
    ]);
    expect(files).toEqual([...needed].sort());
  });

  it('documents the same defaults in its declarations as in the sources, and nothing internal', () => {
    const count = (text: string) => text.split('@defaultValue').length - 1;
    for (const source of filesIn('lib', '.ts')) {
      const file = declarationOf('cjs', source);
      if (!tarball.packed.files.includes(file)) continue;
      const text = readFileSync(packed(file), 'utf8');
      const written = readFileSync(join(projectRoot, source), 'utf8');
      expect([source, count(text)]).toEqual([source, count(written)]);
      expect(text).not.toContain('@internal');
    }
  });

  it('explains in the declarations alone', () => {
    const explained = tarball.packed.files
      .filter((file) => file.startsWith('dist/'))
      .filter((file) =>
        readFileSync(packed(file), 'utf8').includes('Makes operations safe to retry'),
      );
    expect(explained).toEqual([expect.stringMatching(/^dist\/cjs\/.*\.d\.ts$/)]);
  });
});

function declarationOf(format: string, source: string): string {
  return source.replace(/^lib/, `dist/${format}`).replace(/\.ts$/, '.d.ts');
}

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
