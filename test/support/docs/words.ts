import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../project-root.js';
import { documentationPages } from './documented-blocks.js';

/** How long the prose of a page is: what a reader reads, without code, comments, pictures and the addresses of links. */
export interface Length {
  readonly page: string;
  readonly words: number;
  /** Of each paragraph and item of a list; a table is neither. */
  readonly paragraphs: readonly number[];
}

/** All pages of docs/guides. */
export function lengthsOfGuides(): Length[] {
  return documentationPages()
    .filter((page) => page.startsWith('docs/guides/'))
    .map((page) => lengthOf(page, readFileSync(join(projectRoot, page), 'utf8')));
}

export function lengthOf(page: string, markdown: string): Length {
  const prose = markdown
    .replace(/^[ \t]*(`{3,})[^]*?^[ \t]*\1$/gm, '')
    .replace(/<!--[^]*?-->/g, '')
    .replace(/!\[[^\]]*\]\([^)]*\)/g, '')
    .replace(/\]\([^)]*\)/g, ']');
  const paragraphs = prose
    .split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )/)
    .filter((text) => !/^\s*(?:\||#)/.test(text))
    .map(wordsIn)
    .filter((count) => count > 0);
  return { page, words: wordsIn(prose), paragraphs };
}

function wordsIn(text: string): number {
  return text.split(/\s+/).filter((word) => /\w/.test(word)).length;
}
