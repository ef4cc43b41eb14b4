import { keepReport } from '../../test/support/docs/figures/report.js';
import { fromCommandLine } from '../command-line.js';
import { planOf, USAGE } from './arguments.js';
import { replayOf } from './replay-of.js';
import { historyOf } from './history.js';
import { showProgress } from './progress.js';
import { rowsOf } from './report.js';
import { runChaos } from './run.js';
import { tableText } from './table-text.js';

const plan = fromCommandLine(USAGE, planOf);
console.error(`seed ${plan.seed}`);
const result = await runChaos(plan, showProgress);
const rows = rowsOf(result);
console.log(tableText(rows, plan.seed, result.objections));
keepReport(plan.report, 'chaos', replayOf(plan), result.servers, rows);
for (const key of result.suspects) console.error(historyOf(key, result.evidence));
if (result.objections.length > 0) process.exitCode = 1;
