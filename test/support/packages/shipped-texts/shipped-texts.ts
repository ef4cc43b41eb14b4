import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { REJECTIONS } from '../../internals/core.js';
import { projectRoot } from '../../project-root.js';
import { errorTexts } from './error-texts.js';
import { eventTexts } from './event-texts.js';
import { metricTexts } from './metric-texts.js';
import { optionTexts, type TextModule } from './option-texts.js';

interface Texts {
  /** Of the exported object. */
  readonly name: string;
  readonly folder: string;
  readonly ending: '.lua' | '.sql';
  /** Users read it: `npx nestjs-idempotency sql` prints it. */
  readonly keepsComments?: boolean;
}

/**
 * What `lua/` and `sql/` are in the library: it reads no file at run time, which a bundle would not contain. And what the
 * table of rejections is in the client, the package's version in telemetry, and what the code says of options, events,
 * metrics and errors in comments and documentation.
 */
export function shippedTexts(): TextModule[] {
  return [
    textModule('lib/stores/redis/scripts/lua-texts.generated.ts', [
      { name: 'LUA_TEXTS', folder: 'lua', ending: '.lua' },
    ]),
    textModule('lib/stores/postgres/sql/sql-texts.generated.ts', [
      { name: 'STATEMENT_TEXTS', folder: 'sql', ending: '.sql' },
      {
        name: 'MIGRATION_TEXTS',
        folder: 'sql/migrations',
        ending: '.sql',
        keepsComments: true,
      },
      { name: 'BLOB_STATEMENT_TEXTS', folder: 'sql/blobs', ending: '.sql' },
      {
        name: 'BLOB_MIGRATION_TEXTS',
        folder: 'sql/blobs/migrations',
        ending: '.sql',
        keepsComments: true,
      },
      { name: 'AUDIT_STATEMENT_TEXTS', folder: 'sql/audit', ending: '.sql' },
      {
        name: 'AUDIT_MIGRATION_TEXTS',
        folder: 'sql/audit/migrations',
        ending: '.sql',
        keepsComments: true,
      },
      { name: 'JOURNAL_STATEMENT_TEXTS', folder: 'sql/journal', ending: '.sql' },
      {
        name: 'JOURNAL_MIGRATION_TEXTS',
        folder: 'sql/journal/migrations',
        ending: '.sql',
        keepsComments: true,
      },
    ]),
    textModule('lib/stores/mysql/sql/sql-texts.generated.ts', [
      { name: 'STATEMENT_TEXTS', folder: 'sql/mysql', ending: '.sql' },
      {
        name: 'MIGRATION_TEXTS',
        folder: 'sql/mysql/migrations',
        ending: '.sql',
        keepsComments: true,
      },
    ]),
    problemCodes(),
    telemetryScope(),
    ...optionTexts(),
    ...eventTexts(),
    ...metricTexts(),
    ...errorTexts(),
  ];
}

/** The client imports nothing of the server: all texts of the table would come with it. */
function problemCodes(): TextModule {
  const members = Object.entries(REJECTIONS).map(
    ([code, { retryable }]) => `  ${code}: ${retryable},\n`,
  );
  return {
    path: 'packages/client/lib/problem-codes.generated.ts',
    source: `// Made from lib/core/errors/rejections.ts by "npm run texts": change the table there.

/** The server's problem codes, and whether a retry of the same request may succeed. */
export const PROBLEM_RETRYABLE = {
${members.join('')}} as const;
`,
  };
}

/** Code that runs in a bundle cannot read package.json. */
function telemetryScope(): TextModule {
  const manifest = readFileSync(join(projectRoot, 'package.json'), 'utf8');
  const { name, version } = JSON.parse(manifest) as { name: string; version: string };
  return {
    path: 'lib/observability/opentelemetry/scope.generated.ts',
    source: `// Made from package.json by "npm run texts".

/** The instrumentation scope of all spans and metrics. */
export const SCOPE = { name: '${name}', version: '${version}' } as const;
`,
  };
}

function textModule(path: string, objects: readonly Texts[]): TextModule {
  const folder = objects[0]?.folder ?? '';
  const parts = objects.map((texts) => `export const ${texts.name} = {\n${members(texts)}};\n`);
  return {
    path,
    source: `// Made from ${folder}/ by "npm run texts": change the files there.\n\n${parts.join('\n')}`,
  };
}

function members({ folder, ending, keepsComments = false }: Texts): string {
  return readdirSync(join(projectRoot, folder))
    .filter((file) => file.endsWith(ending))
    .sort()
    .map((file) => {
      const source = withIncluded(folder, readFileSync(join(projectRoot, folder, file), 'utf8'));
      const text = keepsComments ? source : withoutComments(source);
      const literal = text.replace(/[\\`]|\$\{/g, String.raw`\$&`);
      return `  '${file.slice(0, -ending.length)}': \`${literal}\`,\n`;
    })
    .join('');
}

/** Replaces `-- include: name` by the file of that name in the subfolder `shared`: a server knows one text at a time. */
function withIncluded(folder: string, text: string): string {
  return text.replace(/^ *-- include: (\w+)\n/gm, (_, name: string) =>
    readFileSync(join(projectRoot, folder, 'shared', `${name}.lua`), 'utf8'),
  );
}

/** Servers need no comments: without blank lines and those that are a comment and nothing else. */
function withoutComments(text: string): string {
  return text.replace(/^--\[\[[^]*?^\]\]\n/m, '').replace(/^[ \t]*(--[^\n]*)?\n/gm, '');
}
