import { keepReport } from '../../../test/support/docs/figures/report.js';
import { fromCommandLine } from '../../command-line.js';
import { replayOf } from '../replay-of.js';
import { tableText } from '../table-text.js';
import { messagePlanOf, USAGE } from './arguments.js';
import { messageHistory } from './history.js';
import { showProgress } from './progress.js';
import { rowsOf } from './report.js';
import { runMessages } from './run-messages.js';

const plan = fromCommandLine(USAGE, messagePlanOf);
const { seed, report } = plan;
console.error(`seed ${seed}`);
const result = await runMessages(plan, { watch: showProgress });
const rows = rowsOf(result);
console.log(tableText(rows, seed, result.objections));
keepReport(report, 'chaos messages', replayOf(plan), result.servers, rows);
for (const key of result.suspects) console.error(messageHistory(key, result.evidence));
if (result.objections.length > 0) process.exitCode = 1;
