import type { BlobObserver, BlobWaitEnd } from '../record/blob-observer.js';
import type { Clock, ClockTimer } from '../util/clock.js';
import { UploadRefusedError } from './upload.js';

interface Waiting {
  readonly begin: () => void;
}

/**
 * As many bodies as may be put into the blob store at a time; the others wait, in the order in which they came. What a body
 * holds of a store, such as the parts of an upload, then has an upper limit.
 */
export class UploadPlaces {
  private readonly queue = new Set<Waiting>();
  private taken = 0;

  constructor(
    private readonly max: number,
    private readonly clock: Clock,
    private readonly observer: BlobObserver | undefined,
  ) {}

  /**
   * Calls `work` once there is a place, at once if there is one, and gives the place back when its result has settled.
   * @param signal - leaves the queue.
   * @throws {@link UploadRefusedError} if there is no place within `ms` milliseconds, the reason of the signal, or what
   * `work` rejects with.
   */
  async use<Result>(
    ms: number,
    work: () => Promise<Result>,
    signal?: AbortSignal,
  ): Promise<Result> {
    if (this.taken < this.max) this.taken += 1;
    else await this.turn(ms, signal);
    try {
      return await work();
    } finally {
      this.giveBack();
    }
  }

  private async turn(ms: number, signal: AbortSignal | undefined): Promise<void> {
    const { clock, queue } = this;
    const startedAt = clock.now();
    const ended = (end: BlobWaitEnd) => this.observer?.uploadWaited(end, clock.now() - startedAt);
    let timer: ClockTimer | undefined;
    await new Promise<void>((resolve, reject) => {
      const leave = (end: BlobWaitEnd) => {
        queue.delete(waiting);
        clock.clearTimeout(timer);
        signal?.removeEventListener('abort', giveUp);
        ended(end);
      };
      const begin = () => {
        leave('begun');
        resolve();
      };
      const giveUp = () => {
        leave('given_up');
        reject(signal?.reason as Error);
      };
      const waiting = { begin };
      queue.add(waiting);
      signal?.addEventListener('abort', giveUp);
      timer = clock.setTimeout(
        () => {
          leave('timeout');
          const message = `No place for a body was free within ${ms} ms: as many are stored at a time as "limits.maxUploads" allows, which is ${this.max}.`;
          reject(new UploadRefusedError('idempotency_uploads_full', message));
        },
        ms,
        undefined,
      );
      timer.unref();
      // Of a signal that was aborted before, no event comes.
      if (signal?.aborted === true) giveUp();
    });
  }

  /** To the one that has waited longest. */
  private giveBack(): void {
    const [next] = this.queue;
    if (next === undefined) this.taken -= 1;
    else next.begin();
  }
}
