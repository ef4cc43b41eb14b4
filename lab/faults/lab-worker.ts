import { LabProcess } from './lab-process.js';
import type { ListeningMessage, WorkerSettings } from './worker/settings.js';

/** One start of a worker process; it does not outlive this one. */
export class LabWorker extends LabProcess<WorkerSettings, ListeningMessage> {
  #url: string | undefined;

  get url(): string {
    if (this.#url === undefined) throw new Error(`${this.name} does not listen yet`);
    return this.#url;
  }

  /** @throws Error with what it wrote, if it ends before. */
  async untilListening(): Promise<void> {
    this.#url = (await this.untilReady()).listening;
  }

  /** Whatever stands still in it by a `hold` goes on, and nothing is held any more. */
  releaseUnowned(): void {
    this.report({});
  }
}
