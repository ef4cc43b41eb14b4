import { keepReport } from '../../support/figures/keep-report.js';
import { planOf, USAGE } from './arguments.js';
import { planFromCommandLine, replayOf } from './command-line.js';
import { historyOf } from './history.js';
import { showProgress } from './progress.js';
import { rowsOf, tableOf } from './report.js';
import { runChaos } from './run.js';

const plan = planFromCommandLine(planOf, USAGE);
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
