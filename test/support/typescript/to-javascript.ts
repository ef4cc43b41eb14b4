import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { transformFile, type Options } from '@swc/core';

const OPTIONS: Options = {
  swcrc: false,
  jsc: {
    target: 'es2022',
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true },
    keepClassNames: true,
  },
  module: { type: 'es6' },
};

/** A TypeScript file of this checkout as an ES module, for a process that loads no TypeScript. */
export async function toJavaScript(file: string): Promise<string> {
  return (await transformFile(file, OPTIONS)).code;
}

/** All TypeScript of a folder, into the same places of another one. */
export async function compileTree(from: string, to: string): Promise<void> {
  const names = await readdir(from, { recursive: true });
  const sources = names.filter((name) => name.endsWith('.ts'));
  const folders = new Set(sources.map((name) => dirname(join(to, name))));
  for (const folder of folders) await mkdir(folder, { recursive: true });
  await Promise.all(
    sources.map(async (name) => {
      const code = await toJavaScript(join(from, name));
      await writeFile(join(to, name.replace(/\.ts$/, '.js')), code);
    }),
  );
}
