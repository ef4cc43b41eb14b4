import { setImmediate as nextRound } from 'node:timers/promises';

/** One order of the steps of several processes, which take turns: of those that wait, the one that is chosen goes on. */
export class Schedule {
  private readonly waiting: { readonly name: string; readonly go: () => void }[] = [];
  private isRunning = false;
  /** How many could have gone on, at each turn. */
  readonly alternatives: number[] = [];

  /** @param choices - at each turn, of those that wait, modulo their number; the first one after these. */
  constructor(readonly choices: readonly number[]) {}

  /** Resolves when it is its turn; at once where none is run. */
  turn(name: string): Promise<void> {
    if (!this.isRunning) return Promise.resolve();
    return new Promise((go) => void this.waiting.push({ name, go }));
  }

  /** Until all processes are done. Rejects as the first of them. */
  async run(start: () => readonly Promise<void>[]): Promise<void> {
    const done: true[] = [];
    this.isRunning = true;
    const all = Promise.all(start()).finally(() => void done.push(true));
    all.catch(() => undefined);
    for (;;) {
      await settled();
      if (this.waiting.length === 0) break;
      // Whoever came first: the same each time.
      this.waiting.sort((one, other) => (one.name < other.name ? -1 : 1));
      const choice = (this.choices[this.alternatives.length] ?? 0) % this.waiting.length;
      this.alternatives.push(this.waiting.length);
      this.waiting.splice(choice, 1)[0]!.go();
    }
    this.isRunning = false;
    if (done.length === 0) throw new Error('A process waits for something that is no turn.');
    await all;
  }
}

/** All schedules, each to be run before the next one is asked for. */
export function* schedules(): Generator<Schedule> {
  for (let choices: number[] | undefined = []; choices !== undefined;) {
    const schedule: Schedule = new Schedule(choices);
    yield schedule;
    choices = following(schedule);
  }
}

/** The next one in the order of an odometer; `undefined` after the last. */
function following({ choices, alternatives }: Schedule): number[] | undefined {
  const taken = alternatives.map((_, turn) => choices[turn] ?? 0);
  for (let turn = taken.length - 1; turn >= 0; turn -= 1) {
    const next = taken[turn]! + 1;
    if (next < alternatives[turn]!) return [...taken.slice(0, turn), next];
  }
  return undefined;
}

/** What can go on without a turn has done so. */
async function settled(): Promise<void> {
  for (let rounds = 0; rounds < 3; rounds += 1) await nextRound();
}
