import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { until } from '../../../support/waiting/until.js';
import { isShown, type Action, type Command, type Step } from './page.js';
import type { Terminal } from './terminal.js';

/** What a reader needs besides the machine: to read the step, and to copy each command and file of it. */
const WORDS_PER_MINUTE = 200;
const COPYING_MS = 10_000;

/** The time of one step: of the machine, and the allowance for the reader. */
export interface Lap {
  readonly step: string;
  readonly machineMs: number;
  readonly readerMs: number;
}

/** What differs between machines. */
export interface Surroundings {
  readonly terminal: Terminal;
  /** Puts what this machine has in the place of what a page names: its ports, and the package. */
  readonly localize: (text: string) => string;
  /** How long an application in the background may take to print what the page shows. */
  readonly outputTimeoutMs: number;
}

/**
 * Does what the steps say, in their order and nothing else.
 *
 * @throws at the first command that fails, and at the first output that is not the page's.
 */
export async function walk(steps: readonly Step[], surroundings: Surroundings): Promise<Lap[]> {
  const laps: Lap[] = [];
  for (const { name, actions, words } of steps) {
    const begin = performance.now();
    for (const action of actions) await take(action, surroundings);
    laps.push({
      step: name,
      machineMs: performance.now() - begin,
      readerMs: (words / WORDS_PER_MINUTE) * 60_000 + actions.length * COPYING_MS,
    });
  }
  return laps;
}

async function take(action: Action, surroundings: Surroundings): Promise<void> {
  if (action.kind === 'command') return runCommand(action, surroundings);
  const { terminal, localize } = surroundings;
  await terminal.run('pwd');
  const path = join(terminal.output.trim(), action.path);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, localize(action.text));
}

async function runCommand(command: Command, surroundings: Surroundings): Promise<void> {
  const { terminal, localize, outputTimeoutMs } = surroundings;
  await terminal.run(localize(command.text));
  for (const { kind, text } of command.shown) {
    const isThere = () => isShown(terminal.output, { kind, text: localize(text) });
    // A response is complete when its command ends.
    if (kind === 'text') await until(isThere, outputTimeoutMs).catch(() => undefined);
    if (isThere()) continue;
    throw new Error(
      `The page shows another output of\n${command.text}\nIt shows\n${text}\nIt is\n${terminal.output}`,
    );
  }
}

/** The minutes in which a reader has done a step and those before it, by the beginning of its name. */
export type Limits = Readonly<Record<string, number>>;

/** @throws if the clock of a step is beyond its limit, or there is no such step. */
export function expectWithin(laps: readonly Lap[], limits: Limits): void {
  const clocks = clocksOf(laps);
  for (const [name, minutes] of Object.entries(limits)) {
    const index = laps.findIndex(({ step }) => step.startsWith(name));
    if (index === -1) throw new Error(`The page has no step "${name}"`);
    if (clocks[index]! <= minutes * 60_000) continue;
    throw new Error(`"${name}" is done after ${clock(clocks[index]!)}, not ${String(minutes)}:00`);
  }
}

/** The clock after each step, as a table. */
export function tableOf(title: string, laps: readonly Lap[]): string {
  const clocks = clocksOf(laps);
  const widest = Math.max(...laps.map(({ step }) => step.length), title.length);
  const row = (name: string, ...cells: readonly string[]) =>
    name.padEnd(widest) + cells.map((cell) => cell.padStart(9)).join('');
  return [
    row(title, 'machine', 'reader', 'clock'),
    ...laps.map(({ step, machineMs, readerMs }, index) =>
      row(step, clock(machineMs), clock(readerMs), clock(clocks[index]!)),
    ),
  ].join('\n');
}

function clocksOf(laps: readonly Lap[]): number[] {
  let sum = 0;
  return laps.map(({ machineMs, readerMs }) => (sum += machineMs + readerMs));
}

function clock(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return `${String(Math.floor(seconds / 60))}:${String(seconds % 60).padStart(2, '0')}`;
}
