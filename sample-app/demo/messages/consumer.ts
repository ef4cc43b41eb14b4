import type { ApiProcess } from '../processes/api-process.js';
import type { TcpProxy } from '../processes/tcp-proxy.js';

/** A consumer of orders with its own proxy to the broker: one process after another. */
export class Consumer {
  readonly #processes: ApiProcess[] = [];

  constructor(
    readonly proxy: TcpProxy,
    private readonly startProcess: () => ApiProcess,
  ) {}

  /** Resolves when it consumes. */
  async start(): Promise<void> {
    const process = this.startProcess();
    this.#processes.push(process);
    await process.untilListening();
  }

  /** kill -9. */
  async kill(): Promise<void> {
    await this.#processes.at(-1)?.kill();
  }

  /** Shuts down gracefully. */
  async close(): Promise<void> {
    await this.#processes.at(-1)?.close();
  }

  /** How many orders it has begun and not completed. */
  get atWork(): number {
    const of = (event: string) => this.#processes.at(-1)?.reported(event) ?? 0;
    return of('acquired') + of('takeover') - of('completed') - of('released');
  }

  /** How many messages were delivered to it and are not settled. */
  get holds(): number {
    const of = (text: string) => this.#processes.at(-1)?.logged(`[Deliveries] ${text}`) ?? 0;
    return of('delivered') + of('redelivered') - of('settled');
  }

  get deliveries(): number {
    return this.#logged('[Deliveries] delivered') + this.redeliveries;
  }

  get redeliveries(): number {
    return this.#logged('[Deliveries] redelivered');
  }

  /** How often the library replayed the first outcome. */
  get replays(): number {
    return this.#logged('[Idempotency] replayed');
  }

  /** How often the library reported a takeover. */
  get takeovers(): number {
    return this.#logged('[Idempotency] takeover');
  }

  /** How often the provider got a request for a charge that it had made. */
  get askedAgain(): number {
    return this.#logged('[Provider] duplicate');
  }

  #logged(text: string): number {
    return this.#processes.reduce((sum, process) => sum + process.logged(text), 0);
  }
}
