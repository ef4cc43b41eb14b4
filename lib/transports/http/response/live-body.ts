import { Readable } from 'node:stream';
import { HeldEnd } from '../../../core/util/held-end.js';
import type { Spool, StoredBody } from './response-sink.js';

/** A client that is so far behind the blob store gets the rest from there. */
const MAX_BEHIND_BYTES = 1_048_576;

/**
 * A body that its client gets while it is stored, as a stream and as the spool that is written to. Its end is held until
 * {@link finish}. Nothing is sent ahead of the store, which is what makes its writer wait; a slow client does not, since its
 * key would be held for as long as it likes.
 */
export class LiveBody extends Readable implements Spool {
  readonly settled: Promise<void>;
  private readonly held = new HeldEnd();
  private sentBytes = 0;
  private isBehind = false;
  private rest: Readable | undefined;

  /** @param announced - the length that the client has been told. */
  constructor(
    private readonly spool: Spool,
    private readonly announced = Infinity,
  ) {
    super({
      read() {
        (this as LiveBody).rest?.resume();
      },
    });
    this.settled = spool.settled;
    // Its reader may not listen from the first moment on.
    this.on('error', ignore);
  }

  get bytes(): number {
    return this.spool.bytes;
  }

  get isFailed(): boolean {
    return this.spool.isFailed;
  }

  get isGivenUp(): boolean {
    return this.spool.isGivenUp;
  }

  onDrain(listener: () => void): void {
    this.spool.onDrain(() => {
      this.send();
      listener();
    });
  }

  write(chunk: Uint8Array): boolean {
    const { spool } = this;
    // Its client would take what comes before for all of it.
    if (spool.bytes + chunk.length > this.announced) this.cut();
    if (!this.isBehind && !this.destroyed) this.held.add(chunk);
    const mayGoOn = spool.write(chunk);
    if (mayGoOn) this.send();
    return mayGoOn;
  }

  end(): void {
    this.spool.end();
    // Nobody is left to wait.
    this.send();
  }

  fail(error: unknown): void {
    this.spool.fail(error);
  }

  /**
   * Its outcome is settled.
   * @param stored - `undefined`: not with this body, so that the client must not take what it has for a whole one.
   */
  async finish(stored: StoredBody | undefined): Promise<void> {
    if (this.destroyed) return;
    if (stored === undefined) {
      this.cut();
      return;
    }
    if (!this.isBehind) {
      for (const chunk of this.held.rest()) this.push(chunk);
      this.push(null);
      return;
    }
    const large = await stored.open();
    if (typeof large === 'string') this.cut();
    else this.goOnWith(large.stream);
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.held.clear();
    this.rest?.destroy();
    callback(error);
  }

  private cut(): void {
    this.destroy(new Error('The response was not stored.'));
  }

  private send(): void {
    for (const chunk of this.held.spare()) {
      if (this.readableLength + chunk.length > MAX_BEHIND_BYTES) {
        this.isBehind = true;
        this.held.clear();
        return;
      }
      this.sentBytes += chunk.length;
      this.push(chunk);
    }
  }

  /** @param stream - all of the body. */
  private goOnWith(stream: Readable): void {
    let toSkip = this.sentBytes;
    this.rest = stream
      .on('data', (chunk: Buffer) => {
        const more = chunk.subarray(toSkip);
        toSkip -= chunk.length - more.length;
        if (more.length > 0 && !this.push(more)) stream.pause();
      })
      .once('end', () => this.push(null))
      .once('error', (error) => this.destroy(error));
    if (this.destroyed) stream.destroy();
  }
}

function ignore(): void {
  // Its reader breaks the connection.
}
