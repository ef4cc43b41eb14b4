import { relative } from 'node:path';

const DEAREST = 10;

/**
 * @param cpu - `{ own, others }` in seconds, of all processes of the run and of all others; `undefined`
 * except on Linux.
 */
export function printCosts({ verdict, costs, seconds, cpu, load, busy }) {
  const { passed, failed, flaky } = verdict;
  const lines = ['', `tests: ${passed} passed, ${failed} failed`, `time: ${format(seconds)} s`];
  if (cpu !== undefined) {
    const inFiles = costs.reduce((sum, { own, children }) => sum + own + children, 0);
    lines.push(
      `CPU: ${format(cpu.own)} s in all processes, ${format(inFiles)} s of it in files, the rest in Jest and shared servers`,
      `load: ${load.toFixed(2)} at the start, then ${busyWith(cpu.others, busy)}`,
    );
  }
  if (costs.length > 1) {
    const dearest = costs.sort((a, b) => sumOf(b) - sumOf(a)).slice(0, DEAREST);
    lines.push('most expensive, CPU s in the worker + in its children:');
    for (const cost of dearest) {
      const { file, own, children } = cost;
      const name = relative(process.cwd(), file);
      lines.push(`${format(own).padStart(8)} + ${format(children).padStart(6)}  ${name}`);
    }
  }
  lines.push(`flaky: ${flaky.length === 0 ? 'none' : flaky.join(', ')}`);
  console.log(lines.join('\n'));
}

function busyWith(others, loops) {
  const beside = loops === 0 ? '' : `, ${loops} busy loops among them`;
  return `${format(others)} CPU s of other processes${beside}`;
}

function sumOf({ own, children }) {
  return own + children;
}

function format(seconds) {
  return seconds.toFixed(1);
}
