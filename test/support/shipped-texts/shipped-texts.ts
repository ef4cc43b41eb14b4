import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../project-root.js';

interface Texts {
  /** Of the exported object. */
  readonly name: string;
  readonly folder: string;
  readonly ending: '.lua' | '.sql';
}

export interface TextModule {
  /** Within the project. */
  readonly path: string;
  readonly source: string;
}

/** What `lua/` and `sql/` are in the library: it reads no file at run time, which a bundle would not contain. */
export function shippedTexts(): TextModule[] {
  return [
    textModule('lib/stores/redis/scripts/lua-texts.generated.ts', [
      { name: 'LUA_TEXTS', folder: 'lua', ending: '.lua' },
    ]),
    textModule('lib/stores/postgres/sql/sql-texts.generated.ts', [
      { name: 'STATEMENT_TEXTS', folder: 'sql', ending: '.sql' },
      { name: 'MIGRATION_TEXTS', folder: 'sql/migrations', ending: '.sql' },
    ]),
  ];
}

function textModule(path: string, objects: readonly Texts[]): TextModule {
  const folder = objects[0]?.folder ?? '';
  const parts = objects.map((texts) => `export const ${texts.name} = {\n${members(texts)}};\n`);
  return {
    path,
    source: `// Made from ${folder}/ by "npm run texts": change the files there.\n\n${parts.join('\n')}`,
  };
}

function members({ folder, ending }: Texts): string {
  return readdirSync(join(projectRoot, folder))
    .filter((file) => file.endsWith(ending))
    .sort()
    .map((file) => {
      const text = readFileSync(join(projectRoot, folder, file), 'utf8');
      const literal = text.replace(/[\\`]|\$\{/g, String.raw`\$&`);
      return `  '${file.slice(0, -ending.length)}': \`${literal}\`,\n`;
    })
    .join('');
}
