import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { REJECTIONS } from '../core/errors/rejections.js';
import { ServerFailure, UsageError } from './servers/failures.js';

/** A page of the package's `docs`. */
interface DocumentedTopic {
  /** Its path in `docs`: `guides/payments`, or `reference/problems` for the README of a folder. */
  readonly name: string;
  readonly title: string;
  readonly text: string;
}

/** It has what the package leaves out, too: measurements, decisions, and what the scripts say of themselves. */
const SITE = 'https://nestjs-idempotency.github.io/nestjs-idempotency/';
const README = /(?:^|\/)README$/;
/** How many lines of a page a search shows. */
const LINES = 3;

/**
 * Lists the pages, and where there are more; prints the one that `words` name, by its path, the end of its path, or the code of a problem; else
 * finds the pages that have all the words.
 *
 * @param program - the file that runs: the pages stand beside it in the package.
 * @returns the exit code: 1 if nothing was found.
 */
export function runDocs(
  words: readonly string[],
  program: string,
  print: (text: string) => void,
): number {
  const option = words.find((word) => word.startsWith('-'));
  if (option !== undefined) throw new UsageError(`Unknown option "${option}" of docs.`);
  const topics = topicsIn(join(dirname(realpathSync(program)), '../../../docs'));
  if (words.length === 0) {
    const width = Math.max(...topics.map(({ name }) => name.length));
    print(topics.map(({ name, title }) => `${name.padEnd(width)}  ${title}\n`).join(''));
    print(`More, such as measurements: ${SITE}\n`);
    return 0;
  }
  const [page, ...others] = words.length === 1 ? named(words[0] ?? '', topics) : [];
  if (page !== undefined && others.length === 0) {
    print(page.text);
    return 0;
  }
  const found = topics.flatMap((topic) => linesWith(words, topic));
  print(found.join(''));
  if (found.length === 0) print(`No page has "${words.join(' ')}". More pages: ${SITE}\n`);
  return found.length === 0 ? 1 : 0;
}

function topicsIn(folder: string): DocumentedTopic[] {
  let files: string[];
  try {
    files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  } catch {
    throw new ServerFailure(`There are no pages in ${folder}: is the package complete?`);
  }
  return files
    .filter((file) => file.endsWith('.md'))
    .map((file) => {
      const text = readFileSync(join(folder, file), 'utf8');
      const path = file.replaceAll('\\', '/').slice(0, -'.md'.length);
      const [, title = path] = /^# (.+)$/m.exec(text) ?? [];
      return { name: path === 'README' ? 'docs' : path.replace(README, ''), title, text };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function named(word: string, topics: readonly DocumentedTopic[]): DocumentedTopic[] {
  const wanted = word
    .replace(/\.md$/, '')
    .replace(/^docs\//, '')
    .replace(README, '');
  const problem = Object.entries(REJECTIONS).find(([code]) => code === wanted)?.[1].page;
  const name = problem === undefined ? wanted : `reference/problems/${problem}`;
  const exact = topics.filter((topic) => topic.name === name);
  return exact.length > 0 ? exact : topics.filter((topic) => topic.name.endsWith(`/${name}`));
}

/** The page and its first lines that have all the words, or nothing. */
function linesWith(words: readonly string[], { name, title, text }: DocumentedTopic): string[] {
  const wanted = words.map((word) => word.toLowerCase());
  const has = (line: string) => wanted.every((word) => line.toLowerCase().includes(word));
  const lines = text.split('\n').filter(has);
  if (lines.length === 0 && !has(`${name} ${title}`)) return [];
  const shown = lines.slice(0, LINES).map((line) => `    ${line.trim().replace(/ {2,}/g, ' ')}\n`);
  return [`${name}  ${title}\n`, ...shown];
}
