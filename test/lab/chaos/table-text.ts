import type { Row } from '../../support/figures/report.js';

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

/** `keysExecutedTwice` as `keys executed twice`. */
export function inWords(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
