/** A page of the documentation, by its path from the project's root. */
export interface Page {
  readonly path: string;
  readonly text: string;
}

/** One promise, and where it stands. */
export interface Promised {
  /** A clause of a list, or the situation of a table's row, without links and emphasis. */
  readonly text: string;
  readonly isSituation: boolean;
  readonly page: string;
  /** The heading above it. */
  readonly section: string;
}

/** The sentence that makes promises of the entries of its section's list or table. */
const MARK = /What holds each: \[evidence\]\((?:[\w.]+\/)*evidence\.md\)/;
const PROMISING = 'What is promised';

/**
 * The promises of a page: what the lists and tables of the marked sections say.
 *
 * @throws where a section promises without the mark, or has the mark and no promise.
 */
export function promisesIn({ path, text }: Page): Promised[] {
  const sections = text.replace(/^```[^]*?^```$/gm, '').split(/^(?=#+ )/m);
  return sections.flatMap((source) => {
    const section = /^#+ (.+)/.exec(source)?.[1] ?? '';
    if (!MARK.test(source)) {
      if (section !== PROMISING) return [];
      throw new Error(`${path}, "${section}": "What holds each: [evidence](…)." is missing`);
    }
    const clauses = itemsOf(source).flatMap(clausesOf);
    const all = [
      ...clauses.map((clause) => ({ text: clause, isSituation: false })),
      ...situationsOf(source).map((situation) => ({ text: situation, isSituation: true })),
    ];
    if (all.length === 0) throw new Error(`${path}, "${section}": there is no promise`);
    return all.map((promised) => ({ ...promised, page: path, section }));
  });
}

function itemsOf(section: string): string[] {
  const items = section.matchAll(/^- (.+(?:\n {2}\S.*)*)/gm);
  return Array.from(items, ([, item]) => plain(item!));
}

/** The first cells of the rows. */
function situationsOf(section: string): string[] {
  const cells = section.matchAll(/^\| ([^|]*[^|\s]) *\|/gm);
  // The first row is the head.
  return Array.from(cells, ([, cell]) => plain(cell!))
    .filter((cell) => !/^-+:?$/.test(cell))
    .slice(1);
}

/** `Lead: one; another. A third` has three: `Lead: one`, `Lead: another`, `A third`. */
function clausesOf(item: string): string[] {
  return item
    .replace(/\.$/, '')
    .split(/(?<=\w|\)|`)\. (?=[A-Z](?![^(]*\)))/)
    .flatMap((sentence) => {
      const [first = '', ...others] = sentence.split(/; (?![^(]*\))/);
      const lead = /^[^:]+: /.exec(first)?.[0] ?? '';
      return [first, ...others.map((other) => lead + other)];
    });
}

function plain(markdown: string): string {
  return markdown
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll('**', '')
    .replace(/\s+/g, ' ')
    .trim();
}
