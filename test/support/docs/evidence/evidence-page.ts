import { posix } from 'node:path';
import { headingsOf } from '../anchors.js';
import { existing, fromPage, type Holding, type ReadFile, type Shown } from './holdings.js';
import type { Promised } from './promises.js';

export interface Evidence {
  /** Words of the promise in a list, or the situation in a table. The same promise may stand in several places. */
  readonly promises: readonly string[];
  readonly holds: readonly [Holding, ...Holding[]];
}

const BEGIN = '<!-- evidence: npm run texts -->';
const END = '<!-- end of evidence -->';
const HEAD = ['promise', 'kind', 'what holds it', 'command'];

/**
 * The page of evidence with its tables as the promises, and what holds them, are now.
 *
 * @throws where a promise has no evidence, or that of two entries; where an entry has no promise; and where evidence
 * names what does not exist.
 */
export function withEvidence(
  page: string,
  promises: readonly Promised[],
  evidence: readonly Evidence[],
  read: ReadFile,
): string {
  const entryOf = new Map(promises.map((one) => [one, only(one, evidence)]));
  for (const { promises: words } of evidence) {
    for (const word of words) {
      if (!promises.some((promised) => isMeant(word, promised))) {
        throw new Error(`No page promises "${word}"`);
      }
    }
  }
  const shown = evidence.map((entry) => {
    const places = promises.filter((promised) => entryOf.get(promised) === entry);
    return { places, rows: entry.holds.map((holding) => checked(holding(read), read)) };
  });
  const sections = new Set(promises.map(({ section }) => section));
  const tables = Array.from(sections, (section) => {
    const own = shown.filter(({ places }) => places[0]?.section === section);
    own.sort((one, other) => promises.indexOf(one.places[0]!) - promises.indexOf(other.places[0]!));
    const rows = own.flatMap(({ places, rows: holdings }) =>
      holdings.map((holding, index) => row(index === 0 ? promiseCell(places, read) : '', holding)),
    );
    return own.length === 0 ? '' : `## ${section}\n\n${[...head(), ...rows].join('\n')}\n\n`;
  });
  const [before, after] = [page.split(BEGIN)[0] ?? '', page.split(END)[1] ?? ''];
  const body = `<!-- prettier-ignore-start -->\n\n${tables.join('')}<!-- prettier-ignore-end -->`;
  return `${before}${BEGIN}\n\n${body}\n\n${END}${after}`;
}

function only(promised: Promised, evidence: readonly Evidence[]): Evidence {
  const [entry, another] = evidence.filter(({ promises }) =>
    promises.some((words) => isMeant(words, promised)),
  );
  const place = `${promised.page}, "${promised.section}": "${promised.text}"`;
  if (entry === undefined) throw new Error(`${place} has no evidence`);
  if (another !== undefined) throw new Error(`${place} has two entries`);
  return entry;
}

function isMeant(words: string, { text, isSituation }: Promised): boolean {
  if (isSituation) return text === words;
  return text.toLowerCase().includes(words.toLowerCase());
}

/** @throws where npm has no such script, or `npm run lab` no such tool. */
function checked(shown: Shown, read: ReadFile): Shown {
  const { command } = shown;
  const { scripts } = JSON.parse(existing(read, 'package.json')) as { scripts: object };
  const [, script = ''] = /^npm (?:run )?([\w:]+) -- /.exec(command) ?? [];
  if (!(script in scripts)) throw new Error(`npm has no script for: ${command}`);
  const tools = existing(read, 'test/lab/main.ts').matchAll(/^ {2}'?([a-z ]+?)'?: \{$/gm);
  const isTool = Array.from(tools).some(([, tool]) => `${command} `.includes(` -- ${tool!} `));
  if (script === 'lab' && !isTool) throw new Error(`npm run lab has no tool for: ${command}`);
  return shown;
}

/** Each situation with its places; of a promise of several lists the first words. */
function promiseCell(places: readonly Promised[], read: ReadFile): string {
  const [{ text, isSituation }] = places as [Promised];
  const texts = isSituation ? new Set(places.map((place) => place.text)) : [text];
  return Array.from(texts, (one) => {
    const own = isSituation ? places.filter((place) => place.text === one) : places;
    return `${one} (${own.map((place) => linkTo(place, read)).join(', ')})`;
  }).join('; ');
}

function linkTo({ page, section }: Promised, read: ReadFile): string {
  const heading = headingsOf(existing(read, page)).find(({ text }) => text === section);
  const name = posix.basename(page, '.md');
  return `[${name}](${fromPage(page)}#${heading!.anchor})`;
}

function head(): string[] {
  return [cells(HEAD), cells(HEAD.map(() => '---'))];
}

function row(promise: string, { kind, what, command }: Shown): string {
  return cells([promise, kind, what, `\`${command}\``]);
}

function cells(texts: readonly string[]): string {
  return `| ${texts.map((text) => text.replaceAll('|', String.raw`\|`)).join(' | ')} |`;
}
