import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createMarkdownRenderer } from 'vitepress';
import { ROOT } from './settings.js';

const COMPARISON = join(ROOT, 'docs/explanation/comparison.md');
const CODE = join(ROOT, 'examples/readme/main.ts');

/** What stands on the first screen, from where it is proven: the measured comparison, and the README's program. */
export default {
  watch: [COMPARISON, CODE],
  async load() {
    const markdown = await createMarkdownRenderer(ROOT);
    return { comparison: afterTheEffect(), code: markdown.render(codeBlock()) };
  },
};

/** Situations as columns, packages as rows, in each cell the charges and what the client gets. */
function afterTheEffect() {
  const [, section] = readFileSync(COMPARISON, 'utf8').split('## After the effect\n');
  const [measured, others] = section
    .split('\n## ')[0]
    .match(/(?:^\|.*\n)+/gm)
    .map(cellsOf);
  const [[, ...situations], ...packages] = measured;
  const [[, ...names], ...answers] = others;
  const official = names.findIndex((name) => name.startsWith('@nestjs/idempotency'));
  const rowOfOfficial = situations.map((situation) => {
    const row = answers.find(([what]) => what === situation);
    if (row === undefined) throw new Error(`${COMPARISON} has no row "${situation}"`);
    return row[official + 1];
  });
  packages.splice(2, 0, [names[official], ...rowOfOfficial]);
  const rows = packages.map(([name, ...cells]) => ({ name, cells: cells.map(countOf) }));
  return { situations, rows };
}

/** The rows of a table, without the line below its head. */
function cellsOf(table) {
  const rows = table.trim().split('\n');
  const cells = rows.map((row) =>
    row
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim()),
  );
  return cells.filter(([first]) => !/^-+$/.test(first));
}

function countOf(cell) {
  const [, charges, rest] = /^\*\*(\d+) charges?\*\*: (.+)$/.exec(cell) ?? [];
  if (charges === undefined) throw new Error(`${COMPARISON} has a cell "${cell}"`);
  return { charges: Number(charges), rest };
}

/** The three parts of the program that are of this package. */
function codeBlock() {
  const text = readFileSync(CODE, 'utf8');
  const parts = ['imports', 'route', 'module'].map((region) => {
    const [, part] = new RegExp(`#region ${region}\n([^]*?) *// #endregion`).exec(text) ?? [];
    if (part === undefined) throw new Error(`${CODE} has no region "${region}"`);
    return part;
  });
  return `\`\`\`ts\n${parts.join('\n')}\`\`\`\n`;
}
