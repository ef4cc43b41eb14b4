import { createHash } from 'node:crypto';
import { pipeline, Readable, type Transform } from 'node:stream';
import { asBuffer } from '../util/as-buffer.js';
import type { Clock, ClockTimer } from '../util/clock.js';
import { BlobUnavailableError } from './blob-store.js';
import { sealedStream } from './segments.js';

/** From so many bytes on that the store has not taken, a writer is asked to wait. */
const WAIT_ABOVE_BYTES = 262_144;

/** So much of a writer that does not wait is held. */
const MAX_BACKLOG_BYTES = 16_777_216;

export interface UploadLimits {
  readonly maxBytes: number;
  /** How long nothing may move, neither from the writer nor to the store. */
  readonly idleMs: number;
  /** How long it may take at all. */
  readonly totalMs: number;
}

/** How the bytes are stored. */
export interface UploadForm {
  readonly compressor: Transform | undefined;
  readonly key: Uint8Array | undefined;
}

/** What is known of a body when all of it is stored. */
export interface UploadedBody {
  readonly clearBytes: number;
  readonly storedBytes: number;
  /** Of the body, in clear. */
  readonly sha256: Buffer;
}

type RefusalCode =
  'idempotency_body_too_large' | 'idempotency_body_too_fast' | 'idempotency_uploads_full';

/** Why a body does not go to the blob store, or not any more, besides the reasons of the store. */
export class UploadRefusedError extends Error {
  override readonly name = 'UploadRefusedError';

  constructor(
    readonly code: RefusalCode,
    message: string,
  ) {
    super(message);
  }
}

/**
 * Puts a body into a blob store while it is written, in constant memory: {@link write} asks its caller to wait for
 * {@link onDrain} as long as the store is slower.
 */
export class Upload {
  /** Of the body so far, in clear. */
  bytes = 0;
  /** Called when a writer that was asked to wait can go on. */
  onDrain: () => void = ignore;
  /** Resolves with what is stored; rejects with what came in between. */
  readonly done: Promise<UploadedBody>;
  private storedBytes = 0;
  private readonly sha256 = createHash('sha256');
  private readonly source: Readable;
  private readonly controller = new AbortController();
  private readonly endsAt: number;
  private movedAt: number;
  private timer: ClockTimer | undefined;
  private isAwaited = false;
  private isOver = false;

  /**
   * @param begin - calls what puts the body, which resolves with how many bytes are stored, when it may begin.
   * @param put - sends the stream to the store, until the signal aborts.
   */
  constructor(
    private readonly clock: Clock,
    private readonly limits: UploadLimits,
    { compressor, key }: UploadForm,
    begin: (work: () => Promise<number>, signal: AbortSignal) => Promise<number>,
    put: (stored: Readable, signal: AbortSignal) => Promise<void>,
  ) {
    this.movedAt = clock.now();
    this.endsAt = this.movedAt + limits.totalMs;
    this.source = new Readable({
      highWaterMark: WAIT_ABOVE_BYTES,
      read: () => {
        this.drained();
      },
    });
    const content = compressor === undefined ? this.source : this.piped(compressor);
    const sealed = key === undefined ? content : sealedStream(content, key);
    const stored = Readable.from(this.counted(sealed), { objectMode: false });
    // A store need not listen from the first moment on, nor to the end.
    for (const stream of [this.source, stored]) stream.on('error', ignore);
    const { signal } = this.controller;
    const work = () => this.moved(() => put(stored, signal));
    this.done = this.finished(begin(work, signal));
    this.done.catch(ignore);
  }

  /** Takes the next bytes. @returns whether more may follow at once. */
  write(chunk: Uint8Array): boolean {
    if (this.isOver) return true;
    this.movedAt = this.clock.now();
    if (this.source.readableLength > MAX_BACKLOG_BYTES) {
      const message = `The handler did not wait for the blob store (write() had returned false): more than ${MAX_BACKLOG_BYTES} bytes were held.`;
      this.fail(new UploadRefusedError('idempotency_body_too_fast', message));
      return true;
    }
    this.bytes += chunk.length;
    if (this.bytes > this.limits.maxBytes) {
      const message = `The body has more bytes than outcome.offload.maxBytes, which is ${this.limits.maxBytes}.`;
      this.fail(new UploadRefusedError('idempotency_body_too_large', message));
      return true;
    }
    this.sha256.update(chunk);
    const mayGoOn = chunk.length === 0 || this.source.push(chunk);
    this.isAwaited ||= !mayGoOn;
    return mayGoOn;
  }

  /** The body is whole. */
  end(): void {
    if (this.isOver) return;
    this.movedAt = this.clock.now();
    this.source.push(null);
  }

  /** Gives it up: the store keeps nothing. */
  fail(error: unknown): void {
    if (this.isOver) return;
    this.over();
    this.controller.abort(error);
    this.source.destroy(error as Error);
    // Who waits has nothing more to wait for.
    this.drained();
  }

  private piped(compressor: Transform): Readable {
    return pipeline(this.source, compressor, ignore);
  }

  private async *counted(
    stored: AsyncIterable<Uint8Array>,
  ): AsyncGenerator<Buffer, void, undefined> {
    for await (const chunk of stored) {
      this.storedBytes += chunk.length;
      this.movedAt = this.clock.now();
      yield asBuffer(chunk);
    }
  }

  /** What waits for its turn has a limit of its own, so that this one begins here. */
  private async moved(put: () => Promise<void>): Promise<number> {
    const { signal } = this.controller;
    signal.throwIfAborted();
    this.movedAt = this.clock.now();
    this.watch();
    const putting = put();
    // A store may ignore the signal: what it does then is not waited for.
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => {
        reject(signal.reason as Error);
      });
    });
    await Promise.race([putting, aborted]);
    return this.storedBytes;
  }

  private async finished(moved: Promise<number>): Promise<UploadedBody> {
    let storedBytes: number;
    try {
      storedBytes = await moved;
    } catch (error) {
      this.fail(error);
      throw error;
    }
    this.over();
    return { clearBytes: this.bytes, storedBytes, sha256: this.sha256.digest() };
  }

  private drained(): void {
    if (!this.isAwaited) return;
    this.isAwaited = false;
    this.onDrain();
  }

  private over(): void {
    this.isOver = true;
    this.clock.clearTimeout(this.timer);
  }

  private watch(): void {
    const { clock, limits } = this;
    const dueAt = Math.min(this.movedAt + limits.idleMs, this.endsAt);
    this.timer = clock.setTimeout(watch, Math.max(1, dueAt - clock.now()), this);
    this.timer.unref();
  }

  /** @internal */
  due(): void {
    const now = this.clock.now();
    if (now < Math.min(this.movedAt + this.limits.idleMs, this.endsAt)) {
      this.watch();
      return;
    }
    const { idleMs, totalMs } = this.limits;
    const what =
      now < this.endsAt
        ? `No byte of a body was moved within ${idleMs} ms, neither by its handler nor by the blob store.`
        : `A body was not in the blob store within ${totalMs} ms, which is lease.maxExecution.`;
    this.fail(new BlobUnavailableError(what));
  }
}

function watch(upload: Upload): void {
  upload.due();
}

function ignore(): void {
  // Who waits for the result gets it from `done`.
}
