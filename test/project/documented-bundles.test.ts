import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { esbuildCommonJs, esbuildModule, LAZY } from '../package/support/bundlers.js';
import { blocksOf } from '../support/docs/documented-blocks.js';
import { projectRoot } from '../support/project-root.js';

type Configure = (
  options: { plugins: unknown[] },
  webpack: object,
) => { plugins: { options: { checkResource?(name: string): boolean } }[] };

/** The arguments of a command, in any order; a quoted one counts without its quotes. */
function argumentsIn(command: string): string[] {
  const words = command.replaceAll('\\\n', ' ').match(/(?:"[^"]*"|[^\s"])+/g) ?? [];
  return words.map((word) => word.replaceAll('"', '')).sort();
}

describe('docs/guides/bundles.md', () => {
  const page = readFileSync(join(projectRoot, 'docs/guides/bundles.md'), 'utf8');
  const [command = '', banner = ''] = blocksOf(page)
    .filter(({ language }) => language === 'sh')
    .map(({ text }) => text);

  it('has the commands of esbuild that the tests of bundles run', () => {
    expect(argumentsIn(command)).toEqual([...esbuildCommonJs.command].sort());
    expect(esbuildModule.command).toContain(argumentsIn(banner).join());
  });

  it('has one list for esbuild and webpack', () => {
    class Plugin {
      constructor(readonly options: { checkResource?(name: string): boolean }) {}
    }
    const file = join(projectRoot, 'test/package/support/webpack.one-file.cjs');
    const configure = createRequire(file)(file) as Configure;
    const webpack = { IgnorePlugin: Plugin, optimize: { LimitChunkCountPlugin: Plugin } };
    const [ignore] = configure({ plugins: [] }, webpack).plugins;
    const leavesOut = (name: string) => ignore?.options.checkResource?.(name);
    expect([...LAZY, 'pg', '@nestjs/core'].filter(leavesOut)).toEqual(LAZY);
  });
});
