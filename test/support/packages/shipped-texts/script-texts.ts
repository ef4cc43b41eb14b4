import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../project-root.js';
import { generatedPage } from './markdown.js';
import type { TextModule } from './option-texts.js';

/** The page of all scripts and statements: what their files say about themselves. */
export function scriptTexts(): TextModule[] {
  const parts = [
    '## Scripts of Redis',
    ...partsOf('lua', '.lua', (text) => /^--\[\[\n([^]*?)\n\]\]/.exec(text)?.[1]),
    '## Statements of PostgreSQL',
    ...partsOf('sql', '.sql', commentAtStart),
    '## Migrations of PostgreSQL',
    ...partsOf('sql/migrations', '.sql', commentAtStart),
  ];
  return [generatedPage('docs/reference/lua-and-sql.md', 'scripts', parts)];
}

function partsOf(
  folder: string,
  ending: string,
  headOf: (text: string) => string | undefined,
): string[] {
  return readdirSync(join(projectRoot, folder))
    .filter((name) => name.endsWith(ending))
    .sort()
    .flatMap((name) => {
      const path = `${folder}/${name}`;
      const head = headOf(readFileSync(join(projectRoot, path), 'utf8'));
      if (head === undefined) throw new Error(`${path} does not begin with a comment.`);
      const [meaning = '', ...details] = head.split(/\n\n/);
      return [
        `### [\`${name}\`](../../${path})`,
        meaning.replaceAll('\n', ' '),
        ...(details.length === 0 ? [] : [`\`\`\`text\n${details.join('\n\n')}\n\`\`\``]),
      ];
    });
}

function commentAtStart(text: string): string | undefined {
  const [comment] = /^(?:--[^\n]*\n)+/.exec(text) ?? [];
  return comment?.trimEnd().replace(/^-- ?/gm, '');
}
