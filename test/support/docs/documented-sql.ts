import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../project-root.js';

/**
 * The one block of SQL in `docs/operations/postgres.md` that contains `words`, as a reader of the page would copy it.
 */
export function documentedSql(words: string): string {
  const page = readFileSync(join(projectRoot, 'docs/operations/postgres.md'), 'utf8');
  const blocks = [...page.matchAll(/^```sql\n([^]*?)^```$/gm)].map(([, text = '']) => text);
  const found = blocks.filter((text) => text.includes(words));
  const [block] = found;
  if (block === undefined || found.length > 1) {
    throw new Error(
      `${found.length} blocks of SQL in docs/operations/postgres.md contain "${words}"`,
    );
  }
  return block;
}
