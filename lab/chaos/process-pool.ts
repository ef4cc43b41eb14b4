/** A process of a pool. */
export interface PooledProcess {
  readonly name: string;
  /** What it wrote on its standard streams. */
  readonly log: string;
  untilExit(): Promise<NodeJS.Signals | null>;
  stop(): void;
  continue(): void;
}

/** A fixed number of processes; whichever dies is started again, as an orchestrator would. */
export abstract class ProcessPool<Process extends PooledProcess> {
  /** How many were killed, from outside or at a point of their own. */
  deaths = 0;
  /** What those wrote that ended without being killed: the library must not end a process. */
  readonly collapses: string[] = [];
  readonly #slots: (Process | undefined)[];
  readonly #stopped = new Set<Process>();
  readonly #starts = new Set<Promise<void>>();
  #isClosing = false;

  /** Empty as yet, see {@link fill}. */
  protected constructor(size: number) {
    this.#slots = Array.from({ length: size });
  }

  /** Starts a process, and resolves when it is ready. */
  protected abstract launch(slot: number): Promise<Process>;

  protected abstract killProcess(process: Process): Promise<void>;

  /** Ends all processes as a deployment does. */
  protected abstract terminateAll(): Promise<void>;

  get size(): number {
    return this.#slots.length;
  }

  /** Whether half of the processes at the least are ready, and do not stand still. */
  get isHalfUp(): boolean {
    const up = this.#slots.filter((_, slot) => this.isUp(slot) && !this.isStopped(slot));
    return up.length * 2 >= this.size;
  }

  /** Whether the process of this slot is ready. */
  isUp(slot: number): boolean {
    return this.#slots[slot] !== undefined;
  }

  /** Those that are ready. */
  get processes(): readonly Process[] {
    return this.#slots.filter((process) => process !== undefined);
  }

  /** The process of this slot, or the next one that is ready; none if all are down. */
  at(slot: number): Process | undefined {
    for (let step = 0; step < this.size; step += 1) {
      const process = this.#slots[(slot + step) % this.size];
      if (process !== undefined) return process;
    }
    return undefined;
  }

  async kill(slot: number): Promise<void> {
    const process = this.#slots[slot];
    if (process !== undefined) await this.killProcess(process);
  }

  /** Whether the process of this slot stands still. */
  isStopped(slot: number): boolean {
    const process = this.#slots[slot];
    return process !== undefined && this.#stopped.has(process);
  }

  stop(slot: number): void {
    const process = this.#slots[slot];
    if (process === undefined) return;
    this.#stopped.add(process);
    process.stop();
  }

  continue(slot: number): void {
    const process = this.#slots[slot];
    if (process === undefined) return;
    this.#stopped.delete(process);
    process.continue();
  }

  async untilAllUp(): Promise<void> {
    while (this.#starts.size > 0) await Promise.all(this.#starts);
  }

  /** Ends all processes as a deployment does. */
  async terminate(): Promise<void> {
    this.#isClosing = true;
    await this.untilAllUp();
    await this.terminateAll();
  }

  /** Resolves when every slot has its process. */
  protected async fill(): Promise<void> {
    await Promise.all(this.#slots.map((_, slot) => this.#fillSlot(slot)));
  }

  #fillSlot(slot: number): Promise<void> {
    const starting = this.#launch(slot);
    this.#starts.add(starting);
    return starting.finally(() => this.#starts.delete(starting));
  }

  async #launch(slot: number): Promise<void> {
    const process = await this.launch(slot);
    this.#slots[slot] = process;
    void process.untilExit().then((signal) => this.#exited(slot, process, signal));
  }

  #exited(slot: number, process: Process, signal: string | null): void {
    this.#slots[slot] = undefined;
    if (this.#isClosing) return;
    if (signal === 'SIGKILL') this.deaths += 1;
    else this.collapses.push(`${process.name}: ${process.log}`);
    this.#fillSlot(slot).catch((error: unknown) => this.collapses.push(String(error)));
  }
}
