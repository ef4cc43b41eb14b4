import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fromCommandLine } from '../command-line.js';
import { planOf, USAGE, type BenchPlan } from './arguments.js';
import { ensureInstalled } from './install.js';
import { buildLibrary } from './library/build-library.js';
import { runOn } from './node.js';
import type { Part } from './parts/part.js';
import { parts } from './parts/parts.js';
import { Progress } from './progress.js';
import { budgetRows } from './report/budget.js';
import { updatePages } from './report/page.js';
import type { PartResult } from './report/result.js';
import { loadResults, saveResult, thisMachine } from './report/results-file.js';
import { tablesOf } from './report/tables.js';

await run(fromCommandLine(USAGE, (args) => planOf(args, parts)));

async function run(plan: BenchPlan): Promise<void> {
  await runOn(plan.node, import.meta.url);
  const { parts: chosen, isKept, library: given } = plan;
  if (chosen.some(({ needsPeers }) => needsPeers)) await ensureInstalled(import.meta.dirname);
  const built = given === undefined ? await buildLibrary() : undefined;
  const library = built?.folder ?? resolve(given ?? '');
  const results = new Map<string, PartResult>();
  try {
    for (const part of chosen) {
      try {
        results.set(part.name, await resultOf(part));
      } catch (error) {
        // What the others find is worth keeping all the same.
        console.error(`${part.name} failed:`, error);
        process.exitCode = 1;
      }
    }
  } finally {
    built?.remove();
  }
  const judged = budgetRows(results);
  if (judged.length > 0) console.table(judged);
  if (!isKept) {
    for (const { table } of tablesOf(results).values()) console.table(table);
    return;
  }
  for (const result of results.values()) saveResult(result);
  updatePages(loadResults());

  async function resultOf(part: Part): Promise<PartResult> {
    const progress = new Progress(part.name);
    const [machine, date] = [await thisMachine(), new Date().toISOString()];
    const findings = await part.run({
      ...plan,
      library,
      onProgress: (text) => progress.show(text),
    });
    progress.end();
    const { version } = JSON.parse(readFileSync(join(library, 'package.json'), 'utf8')) as {
      version: string;
    };
    const versions = {
      'nestjs-idempotency': version,
      Node: process.versions.node,
      ...findings.versions,
    };
    const command = commandOf(part, plan);
    const origin = { part: part.name, command, date, seconds: progress.seconds, machine };
    return { ...origin, ...findings, versions };
  }
}

/** The command that runs this part again. */
function commandOf({ name }: Part, { rounds, profile }: BenchPlan): string {
  const command = ['npm run lab -- bench --only', name];
  if (profile !== 'default') command.push(`--${profile}`);
  if (rounds !== undefined) command.push('--rounds', String(rounds));
  return command.join(' ');
}
