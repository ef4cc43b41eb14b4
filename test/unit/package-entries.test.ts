import { readFileSync } from 'node:fs';
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

it('the main entry exports at most 50 names', () => {
  const text = readFileSync(join(projectRoot, 'lib/index.ts'), 'utf8');
  const names = ts
    .createSourceFile('index.ts', text, ts.ScriptTarget.Latest)
    .statements.filter(ts.isExportDeclaration)
    .flatMap(({ exportClause }) =>
      exportClause !== undefined && ts.isNamedExports(exportClause)
        ? exportClause.elements.map(({ name }) => name.text)
        : ['an unnamed export'],
    );
  expect(names).toContain('IdempotencyModule');
  expect(names).not.toContain('an unnamed export');
  expect(names.length).toBeLessThanOrEqual(50);
});
