/** A step is shown for as long as its sentence takes to read, and until its action has ended. */
const READING_MS = 5_000;

const STEPS = [
  ['One payment: the card is charged, and the response is stored.', 'renew', 'pay'],
  ['The same request again: the stored response, and still one charge.', 'pay'],
  ['Ten copies at once, of a new order: one runs, the others are told so.', 'renew', 'copies'],
  ['The response is lost on the way: the retry gets it, and nothing runs.', 'renew', 'lose'],
  [
    'The process is killed after the charge: another takes over, and asks the provider.',
    'renew',
    'kill',
  ],
  [
    'The store is away: nothing runs without protection, and it is back by itself.',
    'renew',
    'store',
    'pay',
  ],
];
const NEEDING_FAULTS = new Set(['lose', 'kill', 'store']);

/** Presses the buttons of the page in turn, and says what is seen. */
export class Tour {
  #run = 0;

  constructor(actions, demo, text) {
    this.actions = actions;
    this.demo = demo;
    this.text = text;
  }

  /** Starts it, or ends it after the step that is shown. */
  toggle(button) {
    this.#run += 1;
    const isStart = button.textContent !== 'Stop';
    button.textContent = isStart ? 'Stop' : 'Show me, in a minute';
    if (!isStart) this.text.textContent = '';
    else void this.#show(this.#run).then((isOver) => isOver && this.#end(button));
  }

  async #show(run) {
    const steps = STEPS.filter(
      ([, ...names]) => this.demo.isConnected || !names.some((name) => NEEDING_FAULTS.has(name)),
    );
    for (const [index, [sentence, ...names]] of steps.entries()) {
      this.text.textContent = `${index + 1} of ${steps.length}. ${sentence}`;
      const read = new Promise((resolve) => setTimeout(resolve, READING_MS));
      for (const name of names) await this.actions[name]();
      await read;
      if (run !== this.#run) return false;
    }
    return true;
  }

  #end(button) {
    this.text.textContent = 'That was all: now try to be charged twice.';
    button.textContent = 'Show me, in a minute';
  }
}
