import type { PaymentResponse } from './client.js';
import type { Scenario } from './scenario.js';

export interface Row {
  readonly scenario: Scenario;
  readonly responses: readonly PaymentResponse[];
  /** How many charges it added to the ledger. */
  readonly charges: number;
  /** What did not hold. */
  readonly failures: readonly string[];
}

const columns = [
  { title: 'scenario', width: 44 },
  { title: 'responses', width: 24 },
  { title: 'replays', width: 7 },
  { title: 'charges', width: 7 },
  { title: 'verdict', width: 36 },
];

export function tableHead(): string {
  const titles = line(columns.map(({ title }) => title));
  return `${titles}\n${line(columns.map(({ width }) => '─'.repeat(width)))}`;
}

export function tableRow({ scenario, responses, charges, failures }: Row): string {
  const verdict = failures.length === 0 ? `✓ ${scenario.lesson}` : `✗ not: ${failures.join('; ')}`;
  const replays = responses.filter(({ replayed }) => replayed).length;
  return line([
    scenario.title,
    byStatus(responses),
    String(replays).padStart(7),
    String(charges).padStart(7),
    verdict,
  ]);
}

/** For example "20×201, 180×409"; a broken connection counts as "cut off". */
function byStatus(responses: readonly PaymentResponse[]): string {
  const counts = new Map<string, number>();
  for (const { status } of responses) {
    const name = status === undefined ? 'cut off' : String(status);
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts]
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([name, count]) => `${count}×${name}`)
    .join(', ');
}

function line(cells: readonly string[]): string {
  return cells
    .map((cell, index) => cell.padEnd(columns[index]?.width ?? 0))
    .join('  ')
    .trimEnd();
}
