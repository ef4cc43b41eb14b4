import { keepReport } from '../support/figures/keep-report.js';
import { planOf, USAGE } from './arguments.js';
import { historyOf } from './history.js';
import type { Plan } from './plan.js';
import { showProgress } from './progress.js';
import { rowsOf, tableOf } from './report.js';
import { runChaos } from './run.js';

const plan = planFromCommandLine();
if (plan !== undefined) {
  console.error(`seed ${plan.seed}`);
  const result = await runChaos(plan, showProgress);
  console.log(tableOf(plan, result));
  if (plan.report !== undefined) {
    const rows = rowsOf(result);
    keepReport(plan.report, 'chaos', replayOf(plan), result.servers, rows);
  }
  for (const key of result.suspects) console.error(historyOf(key, result.evidence));
  if (result.objections.length > 0) process.exitCode = 1;
}

function planFromCommandLine(): Plan | undefined {
  try {
    return planOf(process.argv.slice(2));
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
    process.exitCode = 2;
    return undefined;
  }
}

/** The arguments as they were given, and the seed that they left open. */
function replayOf({ seed }: Plan): string[] {
  const args = process.argv.slice(2);
  const at = args.indexOf('--report');
  const others = args.filter((_, index) => at === -1 || (index !== at && index !== at + 1));
  return others.includes('--seed') ? others : [...others, '--seed', String(seed)];
}
