import type { Row } from '../../test/support/docs/figures/report.js';

/** What a run came to and what its oracle says of it, for eyes. */
export function tableText(
  table: readonly Row[],
  seed: number,
  objections: readonly string[],
): string {
  const rows = table.map(({ what, count }) => [String(what), String(count)] as const);
  const width = Math.max(...rows.map(([name]) => name.length));
  const verdict = objections.length === 0 ? 'The oracle has no objection.' : 'The oracle objects:';
  return [
    '',
    ...rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`),
    '',
    `seed ${seed}`,
    [verdict, ...objections].join('\n  '),
  ].join('\n');
}

/** What a run came to, and how it is called. */
export type Figure = readonly [name: string, figure: string | number];

/**
 * `keysExecutedTwice: 0` as `keys executed twice`, `0 (< 3/200 at 95 %)`: where there was no failure in n trials, this,
 * the "rule of three", is all that it shows.
 */
export function figuresInWords<Figures extends Readonly<Record<keyof Figures, number>>>(
  figures: Figures,
  trials: Partial<Record<keyof Figures, number>>,
): Figure[] {
  return (Object.keys(figures) as (keyof Figures & string)[]).map((name) => {
    const [count, tried = 0] = [figures[name], trials[name]];
    const isShown = count === 0 && tried > 0;
    const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
    return [words, isShown ? `0 (< 3/${tried} at 95 %)` : count];
  });
}
