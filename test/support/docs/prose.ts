/** A text between blank lines, or an item of a list. */
export interface Paragraph {
  readonly line: number;
  /** Without the targets of its links. */
  readonly words: number;
}

/** Blocks of code, comments, and tables that a script writes. */
const NOT_PROSE =
  /^([ \t]*)(`{3,})[^]*?^\1\2$|<!-- prettier-ignore-start -->[^]*?<!-- prettier-ignore-end -->|<!--[^]*?-->/gm;

/** Tables and headings. */
const NOT_A_PARAGRAPH = /^[ \t]*(?:\||#+ ).*$/gm;

/** How long a page is for its readers: its lines without code, without comments, and without what a script writes. */
export function linesOfProse(page: string): number {
  return page.replace(NOT_PROSE, '').trimEnd().split('\n').length;
}

export function paragraphsOf(page: string): Paragraph[] {
  const text = page.replace(NOT_PROSE, emptyLines).replace(NOT_A_PARAGRAPH, '');
  const paragraphs: Paragraph[] = [];
  let isOpen = false;
  for (const [index, line] of text.split('\n').entries()) {
    const words = wordsOf(line);
    if (words === 0) {
      isOpen = false;
    } else if (isOpen && !/^\s*(?:[-*]|\d+\.) /.test(line)) {
      const { line: first, words: before } = paragraphs.pop()!;
      paragraphs.push({ line: first, words: before + words });
    } else {
      paragraphs.push({ line: index + 1, words });
      isOpen = true;
    }
  }
  return paragraphs;
}

/** As many lines as there were, so that those below keep their numbers. */
function emptyLines(text: string): string {
  return text.replace(/[^\n]/g, '');
}

function wordsOf(line: string): number {
  const shown = line.replace(/\]\([^)]*\)/g, ']');
  return shown.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}
