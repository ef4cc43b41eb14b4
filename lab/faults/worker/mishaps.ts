import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { LineFile } from './line-file.js';
import { parseMishap, type Action, type Mishap, type Point } from './mishap.js';

const forever = new Int32Array(new SharedArrayBuffer(4));

/** Lets happen to each request what its header asks for. */
export class Mishaps {
  readonly #plans = new AsyncLocalStorage<Mishap>();
  /** Whatever the parent says, it says it once. */
  readonly #goOn = once(process, 'message');

  constructor(
    private readonly worker: string,
    private readonly events: LineFile,
  ) {}

  /** Handles a request under its plan. */
  run(header: string | undefined, handle: () => void): void {
    if (header === undefined) handle();
    else this.#plans.run(parseMishap(header), handle);
  }

  /**
   * An attempt comes by this point: on with it if nothing is planned.
   *
   * @param cut - breaks the connection of its transaction.
   */
  async at(point: Point, cut?: () => void): Promise<void> {
    const plan = this.#plans.getStore();
    if (plan?.point === point) await this.#suffer(point, plan.action, cut);
  }

  async #suffer(point: Point, action: Action, cut: (() => void) | undefined): Promise<void> {
    switch (action.kind) {
      case 'crash':
        this.events.append({ type: 'lab:crash', point, worker: this.worker, at: Date.now() });
        process.kill(process.pid, 'SIGKILL');
        // The signal may take a moment, in which the attempt must not go on.
        Atomics.wait(forever, 0, 0);
        return;
      case 'pause':
        await delay(action.ms);
        return;
      case 'hold':
        await this.#goOn;
        return;
      case 'block':
        Atomics.wait(forever, 0, 0, action.ms);
        return;
      case 'cut':
        cut?.();
    }
  }
}
