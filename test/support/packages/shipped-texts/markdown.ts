import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../project-root.js';
import type { TextModule } from './option-texts.js';

/** A table; a `|` within a cell is escaped. */
export function table(
  head: readonly string[],
  rows: readonly (readonly (string | number)[])[],
): string {
  return [head, head.map(() => '---'), ...rows]
    .map(
      (cells) =>
        `| ${cells.map((cell) => String(cell).replace(/\|/g, String.raw`\|`)).join(' | ')} |`,
    )
    .join('\n');
}

/** The page, with these parts between the markers of `name`. */
export function generatedPage(path: string, name: string, parts: readonly string[]): TextModule {
  const markers = [`<!-- ${name}: npm run texts -->`, `<!-- end of ${name} -->`] as const;
  const page = readFileSync(join(projectRoot, path), 'utf8');
  const [before, , after] = page.split(new RegExp(markers.join('|')));
  const body = `<!-- prettier-ignore-start -->\n\n${parts.join('\n\n')}\n\n<!-- prettier-ignore-end -->`;
  const source = `${before ?? ''}${markers[0]}\n\n${body}\n\n${markers[1]}${after ?? ''}`;
  return { path, source };
}
