import type { Report } from './report.js';

const PLACE = /<!-- figures: ([a-z-]+) -->\n[^]*?<!-- end of figures -->/g;

/** The page with each `<!-- figures: name -->` followed by what its run has measured, if there was one. */
export function withFigures(page: string, load: (name: string) => Report | undefined): string {
  return page.replace(PLACE, (place, name: string) => {
    const report = load(name);
    if (report === undefined) return place;
    return [`<!-- figures: ${name} -->`, '', rendered(report), '<!-- end of figures -->'].join(
      '\n',
    );
  });
}

function rendered({ command, date, versions, cores, processor, table }: Report): string {
  const columns = Object.keys(table[0] ?? {});
  const software = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const machine = processor === undefined ? `${cores} cores` : `${cores} cores, ${processor}`;
  const origin = [date.slice(0, 10), ...software, machine].join(', ');
  return [
    `\`${command}\` (${origin})`,
    '',
    // Columns padded to their widest cell would all change with every figure.
    '<!-- prettier-ignore-start -->',
    row(columns),
    row(
      columns.map((column, place) =>
        place > 0 && table.some((cells) => isFigure(cells[column])) ? '--:' : '---',
      ),
    ),
    ...table.map((cells) => row(columns.map((column) => formatCell(cells[column] ?? '')))),
    '<!-- prettier-ignore-end -->',
    '',
  ].join('\n');
}

function row(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

/** Of a date or a range, too. */
function isFigure(cell: string | number | undefined): boolean {
  return typeof cell === 'number' || /^\d/.test(cell ?? '');
}

function formatCell(cell: string | number): string {
  return typeof cell === 'number' ? cell.toLocaleString('en') : cell;
}
