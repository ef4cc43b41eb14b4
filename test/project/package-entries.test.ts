import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import ts from 'typescript';
import { projectRoot } from '../support/project-root.js';
import { packageEntries } from '../support/typescript/package-entries.mjs';

it('test/tsconfig.json leads each entry of the package to its source', () => {
  const file = join(projectRoot, 'test/tsconfig.json');
  const { config } = ts.readConfigFile(file, (path) => ts.sys.readFile(path));
  const sources = [...packageEntries(projectRoot)].map(([name, { source }]) => [
    name,
    [`../${source}`],
  ]);
  expect(config.compilerOptions.paths).toEqual(Object.fromEntries(sources));
});
