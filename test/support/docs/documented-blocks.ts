import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse as parseGraphql } from 'graphql';
import { parse as parseYaml } from 'yaml';
import { projectRoot } from '../project-root.js';

/** A fenced block of a page. */
export interface DocumentedBlock {
  readonly line: number;
  /** As its fence says; '' without one. */
  readonly language: string;
  readonly text: string;
  /** Whether the page has it from a file: `<!-- code: path -->`. */
  readonly isFromFile: boolean;
}

const BLOCK =
  /(?<comment><!-- code: \S+ -->\n+)?^(?<indent>[ \t]*)(?<fence>`{3,})(?<language>\S*)\n(?<text>[^]*?)^\k<indent>\k<fence>$/gm;

export function blocksOf(page: string): DocumentedBlock[] {
  return Array.from(page.matchAll(BLOCK), ({ index, groups }) => {
    const { comment = '', language = '', text = '' } = groups!;
    const line = page.slice(0, index).concat(comment).split('\n').length;
    return { line, language, text, isFromFile: comment !== '' };
  });
}

/** Commands and what they print, messages of HTTP, and drawings: shown, not compiled. */
const SHOWN = new Set(['sh', 'text', 'http', 'mermaid']);

/** The parsers of what is data. They throw. */
const PARSERS: Readonly<Record<string, (text: string) => unknown>> = {
  json: (text) => JSON.parse(text) as unknown,
  yaml: (text) => parseYaml(text) as unknown,
  graphql: (text) => parseGraphql(text),
};

/**
 * Whether something holds a block: the file that it comes from, the compiler (`isCompiled`), a parser, or a test that runs
 * its SQL. Otherwise, what is wrong with it.
 */
export function complaintAbout(
  block: DocumentedBlock,
  isCompiled: (text: string) => boolean,
): string | undefined {
  const { language, text, isFromFile } = block;
  if (isFromFile || SHOWN.has(language)) return undefined;
  if (language === 'ts') return isCompiled(text) ? undefined : 'is not compiled';
  if (language === 'sql') return isRun(text) ? undefined : 'is not run: documentedSql()';
  const parser = PARSERS[language];
  if (parser === undefined)
    return language === '' ? 'has no language' : `is ${language}, of no file`;
  try {
    parser(text);
    return undefined;
  } catch (error) {
    return `is not ${language}: ${(error as Error).message}`;
  }
}

let runWords: readonly string[] | undefined;

/** Whether a test asks for this block by words of it. */
function isRun(sql: string): boolean {
  runWords ??= readdirSync(join(projectRoot, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts') && !name.startsWith('.tmp-'))
    .flatMap((name) => {
      const text = readFileSync(join(projectRoot, 'test', name), 'utf8');
      return Array.from(text.matchAll(/documentedSql\('([^']+)'[,)]/g), ([, words]) => words!);
    });
  return runWords.some((words) => sql.includes(words));
}

/**
 * The one block of SQL in `docs/operations/postgres.md` that contains `words`, as a reader of the page would copy it.
 */
export function documentedSql(words: string, path = 'docs/operations/postgres.md'): string {
  const page = readFileSync(join(projectRoot, path), 'utf8');
  const blocks = [...page.matchAll(/^```sql\n([^]*?)^```$/gm)].map(([, text = '']) => text);
  const found = blocks.filter((text) => text.includes(words));
  const [block] = found;
  if (block === undefined || found.length > 1) {
    throw new Error(`${found.length} blocks of SQL in ${path} contain "${words}"`);
  }
  return block;
}

/** A block of code that stands in a file: `<!-- code: path/of/file.ts#region -->` above its fence. */
const FROM_A_FILE = /(<!-- code: (\S+?)(?:#(\S+))? -->\n+(`{3,})\w+\n)[^]*?(?=^\4$)/gm;

/** The READMEs of the packages and all pages of `docs`, without the reports of the API, by their paths from the project's root. */
export function documentationPages(): string[] {
  const docs = readdirSync(join(projectRoot, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !name.startsWith('reference/api/'))
    .map((name) => `docs/${name}`)
    .sort();
  return ['README.md', 'packages/client/README.md', ...docs];
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

export interface Heading {
  readonly text: string;
  /** As GitHub names it: of the second heading with the same words `…-1`, and so on. */
  readonly anchor: string;
}

/** The headings of a page. */
export function headingsOf(markdown: string): Heading[] {
  const seen = new Map<string, number>();
  const headings = markdown.replace(/^```[^]*?^```$/gm, '').matchAll(/^#+ (.+)$/gm);
  return Array.from(headings, ([, text = '']) => {
    const anchor = text
      .replace(/\[([^\]]+)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-');
    const earlier = seen.get(anchor) ?? 0;
    seen.set(anchor, earlier + 1);
    return { text, anchor: earlier === 0 ? anchor : `${anchor}-${earlier}` };
  });
}
