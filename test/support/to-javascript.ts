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
