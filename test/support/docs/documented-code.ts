import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../project-root.js';

/** A block of code that stands in a file: `<!-- code: path/of/file.ts#region -->` above its fence. */
const FROM_A_FILE = /(<!-- code: (\S+?)(?:#(\S+))? -->\n+(`{3,})\w+\n)[^]*?(?=^\4$)/gm;

/** The README and all pages of `docs`, without the reports of the API, by their paths from the project's root. */
export function documentationPages(): string[] {
  const docs = readdirSync(join(projectRoot, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !name.startsWith('reference/api/'))
    .map((name) => `docs/${name}`)
    .sort();
  return ['README.md', ...docs];
}

/**
 * The page with each block as its file has it now: the whole file, or what stands between `#region name` and
 * `#endregion`, without the indentation that all its lines share.
 *
 * @throws where the file has no such region.
 */
export function withCode(page: string, read: (path: string) => string): string {
  return page.replace(FROM_A_FILE, (_, head: string, path: string, region?: string) => {
    const text = read(path);
    return head + (region === undefined ? withoutMarks(text) : regionOf(text, region, path));
  });
}

const MARKS = /^[ \t]*(?:\/\/|#|--) ?#(?:region|endregion)\b.*\n/gm;

function withoutMarks(text: string): string {
  return text.replace(MARKS, '');
}

function regionOf(text: string, region: string, path: string): string {
  const [, inside] = text.split(new RegExp(`^.*#region ${region}$\\n`, 'm'));
  const end = inside?.search(/^.*#endregion\b/m) ?? -1;
  if (end === -1) throw new Error(`${path} has no region "${region}"`);
  const lines = inside!.slice(0, end);
  const indents = Array.from(lines.matchAll(/^ *(?=\S)/gm), ([spaces]) => spaces.length);
  return lines.replace(new RegExp(`^ {${Math.min(...indents)}}`, 'gm'), '');
}
