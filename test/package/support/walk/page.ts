/** A page that a reader follows: the steps under its headings, and what each asks the reader to do. */
export interface Step {
  /** The heading. */
  readonly name: string;
  readonly actions: readonly Action[];
  /** How many words the reader reads, code and responses included. */
  readonly words: number;
}

export type Action = FileToWrite | Command;

/** A whole file: a block of code below a line with its path in bold, and the comment that says where the page has it from. */
export interface FileToWrite {
  readonly kind: 'file';
  readonly path: string;
  readonly text: string;
}

/** A block of `sh`, and what the blocks after it show of its output. */
export interface Command {
  readonly kind: 'command';
  readonly text: string;
  readonly shown: readonly Shown[];
}

/**
 * The output of a command. `http` is the response that `curl -i` prints, without what stands before it. In a line `…`
 * stands for anything, and a line of its own for any lines.
 */
export interface Shown {
  readonly kind: 'http' | 'text';
  readonly text: string;
}

const BLOCK = /(?:^\*\*(\S+)\*\*\n+)?(?:^<!-- code: \S+ -->\n+)?^```(\w*)\n([^]*?)^```$/gm;

/** @throws where a block is neither a named file nor a command nor the output of a command. */
export function stepsOf(page: string): Step[] {
  const [, ...sections] = page.split(/^## /m);
  return sections.map((section) => {
    const name = section.slice(0, section.indexOf('\n'));
    const words = section.split(/\s+/).filter((word) => /\w/.test(word)).length;
    return { name, words, actions: actionsOf(section) };
  });
}

function actionsOf(section: string): Action[] {
  const actions: Action[] = [];
  for (const [, path, language = '', text = ''] of section.matchAll(BLOCK)) {
    const last = actions.at(-1);
    if (path !== undefined) actions.push({ kind: 'file', path, text });
    else if (language === 'sh') actions.push({ kind: 'command', text, shown: [] });
    else if (last?.kind === 'command' && (language === 'http' || language === 'text'))
      actions[actions.length - 1] = { ...last, shown: [...last.shown, { kind: language, text }] };
    else throw new Error(`A block of the page can be neither run nor written:\n${text}`);
  }
  return actions;
}

/** Whether `output` is what the page shows. */
export function isShown(output: string, { kind, text }: Shown): boolean {
  const lines = `${output.replaceAll('\r', '').trim()}\n`;
  const begin = kind === 'http' ? lines.search(/^HTTP\//m) : 0;
  return begin !== -1 && new RegExp(`^${patternOf(`${text.trim()}\n`)}$`).test(lines.slice(begin));
}

function patternOf(text: string): string {
  return text
    .replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
    .replace(/^…$\n?/gm, '(?:.*\\n)*')
    .replaceAll('…', '.*');
}
