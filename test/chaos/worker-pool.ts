import type { Lab } from '../faults/lab/lab.js';
import type { LabWorker } from '../faults/lab/lab-worker.js';
import type { StoreSettings } from '../faults/lab/worker/settings.js';
import type { Plan } from './plan.js';

/** A fixed number of workers; whichever dies is started again, as an orchestrator would. */
export class WorkerPool {
  /** How many were killed, from outside or at a point of their own. */
  deaths = 0;
  /** What those wrote that ended without being killed: the library must not end a process. */
  readonly collapses: string[] = [];
  readonly #slots: (LabWorker | undefined)[];
  readonly #stopped = new Set<LabWorker>();
  readonly #starts = new Set<Promise<void>>();
  #isClosing = false;

  private constructor(
    private readonly lab: Lab,
    private readonly storeFor: (slot: number) => StoreSettings,
    private readonly plan: Plan,
  ) {
    this.#slots = Array.from({ length: plan.workers });
  }

  static async start(
    lab: Lab,
    storeFor: (slot: number) => StoreSettings,
    plan: Plan,
  ): Promise<WorkerPool> {
    const pool = new WorkerPool(lab, storeFor, plan);
    await Promise.all(pool.#slots.map((_, slot) => pool.#fill(slot)));
    return pool;
  }

  get size(): number {
    return this.#slots.length;
  }

  /** Whether half of the workers at the least listen, and do not stand still. */
  get isHalfUp(): boolean {
    const up = this.#slots.filter((_, slot) => this.isUp(slot) && !this.isStopped(slot));
    return up.length * 2 >= this.size;
  }

  /** Whether the worker of this slot listens. */
  isUp(slot: number): boolean {
    return this.#slots[slot] !== undefined;
  }

  /** Of those that listen. */
  get urls(): readonly string[] {
    return this.#slots.flatMap((worker) => (worker === undefined ? [] : [worker.url]));
  }

  /** The worker of this slot, or the next one that listens; none if all are down. */
  urlOf(slot: number): string | undefined {
    for (let step = 0; step < this.size; step += 1) {
      const worker = this.#slots[(slot + step) % this.size];
      if (worker !== undefined) return worker.url;
    }
    return undefined;
  }

  async kill(slot: number): Promise<void> {
    const worker = this.#slots[slot];
    if (worker !== undefined) await this.lab.kill(worker);
  }

  /** Whether the worker of this slot stands still. */
  isStopped(slot: number): boolean {
    const worker = this.#slots[slot];
    return worker !== undefined && this.#stopped.has(worker);
  }

  stop(slot: number): void {
    const worker = this.#slots[slot];
    if (worker === undefined) return;
    this.#stopped.add(worker);
    worker.stop();
  }

  continue(slot: number): void {
    const worker = this.#slots[slot];
    if (worker === undefined) return;
    this.#stopped.delete(worker);
    worker.continue();
  }

  async untilAllUp(): Promise<void> {
    while (this.#starts.size > 0) await Promise.all(this.#starts);
  }

  /** Ends all workers as a deployment does. */
  async terminate(): Promise<void> {
    this.#isClosing = true;
    await this.untilAllUp();
    await this.lab.terminate();
  }

  #fill(slot: number): Promise<void> {
    const starting = this.#launch(slot);
    this.#starts.add(starting);
    return starting.finally(() => this.#starts.delete(starting));
  }

  async #launch(slot: number): Promise<void> {
    const { effectMs: effectDelayMs, leaseMs, onSaveFailure, transactional } = this.plan;
    const { saveTimeoutMs, commandTimeoutMs } = this.plan;
    const options = { leaseMs, onSaveFailure, saveTimeoutMs, commandTimeoutMs };
    const worker = await this.lab.start(this.storeFor(slot), {
      options,
      effectDelayMs,
      transactional,
    });
    this.#slots[slot] = worker;
    void worker.untilExit().then((signal) => this.#exited(slot, worker, signal));
  }

  #exited(slot: number, worker: LabWorker, signal: string | null): void {
    this.#slots[slot] = undefined;
    if (this.#isClosing) return;
    if (signal === 'SIGKILL') this.deaths += 1;
    else this.collapses.push(`${worker.name}: ${worker.log}`);
    this.#fill(slot).catch((error: unknown) => this.collapses.push(String(error)));
  }
}
