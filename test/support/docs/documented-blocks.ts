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
      return Array.from(text.matchAll(/documentedSql\('([^']+)'\)/g), ([, words]) => words!);
    });
  return runWords.some((words) => sql.includes(words));
}
