import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { LargeBody, OwnerToken, RecordKey } from '../record/record.js';
import type { OpenTransaction } from '../transaction/unit-of-work.js';
import { asBuffer } from '../util/as-buffer.js';
import type { Clock, ClockTimer } from '../util/clock.js';
import { HeldEnd } from '../util/held-end.js';
import { within } from '../util/time.js';
import type { BlobDirection, BlobObserver, BlobResult } from '../record/blob-observer.js';
import { BlobUnavailableError, blobName, type BlobName, type BlobStore } from './blob-store.js';
import { compress, compressor, inflate, inflatedStream, NO_DICTIONARIES } from './compression.js';
import { MAX_CLEAR_BYTES, type BlobPointer, type CompressionHead } from './frame.js';
import { DEFAULT_OFFLOAD, type ResolvedOffload, type ResolvedPackOptions } from './pack-options.js';
import { openSegments, openStream, SEGMENT_BYTES, sealedSegments } from './segments.js';
import { UnreadableOutcome } from './unreadable-outcome.js';
import { Upload, type UploadedBody } from './upload.js';
import { UploadPlaces } from './upload-places.js';

const KEY_BYTES = 32;

/** The retention counts from the completion, which follows, and by the clock of the record's store. */
const EXPIRY_MARGIN_MS = 3_600_000;

/** The attempt whose outcome it is. */
export interface BlobOwner {
  readonly recordKey: RecordKey;
  readonly token: OwnerToken;
  readonly retentionMs: number;
  /** In which the blob is put, if the store can. */
  readonly transaction?: OpenTransaction | undefined;
}

/** Where a body was put. */
export interface Offloaded {
  readonly pointer: BlobPointer;
  /** Of the blob. */
  readonly compression: CompressionHead | undefined;
}

/** Puts bodies into a blob store, and reads them. What a pointer tells is compared with what is read. */
export class Offload {
  private readonly places: UploadPlaces;

  /** @param maxUploads - how many bodies are put at a time. */
  constructor(
    private readonly store: BlobStore,
    private readonly clock: Clock,
    maxUploads: number,
    private readonly observer?: BlobObserver,
  ) {
    this.places = new UploadPlaces(maxUploads, clock, observer);
  }

  /** @throws {@link BlobUnavailableError}, {@link UploadRefusedError}, or another error of the store. */
  put(
    body: Uint8Array,
    owner: BlobOwner,
    compression: ResolvedPackOptions['compression'],
    isEncrypted: boolean,
    { putTimeout }: ResolvedOffload,
  ): Promise<Offloaded> {
    return this.inPlace(owner, putTimeout, () =>
      this.putNow(body, owner, compression, isEncrypted, putTimeout),
    );
  }

  /**
   * In a transaction, it does not wait for a place: with its connection, it would keep what it waits for from going on, and
   * its locks from everyone. The pool limits how many these are.
   */
  private inPlace<Result>(
    { transaction }: BlobOwner,
    waitMs: number,
    work: () => Promise<Result>,
    signal?: AbortSignal,
  ): Promise<Result> {
    return transaction === undefined ? this.places.use(waitMs, work, signal) : work();
  }

  private async putNow(
    body: Uint8Array,
    { recordKey, token, retentionMs, transaction }: BlobOwner,
    compression: ResolvedPackOptions['compression'],
    isEncrypted: boolean,
    putTimeout: number,
  ): Promise<Offloaded> {
    const { clock } = this;
    const store = this.storeIn(transaction);
    const compressed =
      compression === false || body.length < compression.thresholdBytes
        ? undefined
        : await compress(body, compression, undefined);
    const bytes = compressed ?? body;
    const key = isEncrypted ? this.newKey() : undefined;
    const parts = key === undefined ? segmentsOf(bytes) : sealedSegments(bytes, key);
    const segments = [...parts];
    const storedBytes = segments.reduce((sum, { length }) => sum + length, 0);
    const name = blobName(retentionMs, recordKey, token);
    const expiresAt = new Date(clock.wallTime() + retentionMs + EXPIRY_MARGIN_MS);
    const putting = () =>
      this.within(putTimeout, 'take a body', (signal) =>
        store.put(name, Readable.from(segments), { bytes: storedBytes, expiresAt, signal }),
      );
    await this.observed('put', putting, () => storedBytes);
    const sha256 = createHash('sha256').update(body).digest();
    const sizes = { clearBytes: body.length, storedBytes, sha256 };
    return offloaded({ store: store.id, name, key }, sizes, compressed && compression);
  }

  /**
   * The same for a body that is still being written.
   * @param beginning - of the body.
   * @param totalMs - how long it may take at all.
   */
  upload(
    owner: BlobOwner,
    compression: ResolvedPackOptions['compression'],
    isEncrypted: boolean,
    { putTimeout, maxBytes }: ResolvedOffload,
    beginning: Uint8Array,
    totalMs: number,
  ): StartedUpload {
    const { clock } = this;
    const { recordKey, token, retentionMs, transaction } = owner;
    const store = this.storeIn(transaction);
    const name = blobName(retentionMs, recordKey, token);
    const expiresAt = new Date(clock.wallTime() + retentionMs + totalMs + EXPIRY_MARGIN_MS);
    const key = isEncrypted ? this.newKey() : undefined;
    const compressing = compression === false ? undefined : compressor(beginning, compression);
    const upload = new Upload(
      clock,
      { maxBytes, idleMs: putTimeout, totalMs },
      { compressor: compressing, key },
      (work, signal) => {
        const observed = () => this.observed('put', work, (bytes) => bytes);
        return this.inPlace(owner, Math.min(putTimeout, totalMs), observed, signal);
      },
      (stored, signal) => store.put(name, stored, { expiresAt, signal }),
    );
    const done = upload.done.then((sizes) =>
      offloaded({ store: store.id, name, key }, sizes, compressing && compression),
    );
    done.catch(ignore);
    return { upload, done };
  }

  /** Deletes a blob to which no record points. Best effort: its age deletes it, too. */
  async discard({ name }: BlobPointer): Promise<void> {
    await this.store.delete(name as BlobName).catch(ignore);
  }

  /**
   * Deletes a blob whose record has dropped it.
   * @throws {@link UnreadableOutcome} for a blob of another store.
   * @throws {@link BlobUnavailableError}, or another error of the store, if it did not confirm that.
   */
  async delete({ store: id, name }: BlobPointer): Promise<void> {
    if (id !== this.store.id) throw new UnreadableOutcome('blob_store');
    const { putTimeout } = DEFAULT_OFFLOAD;
    await this.within(putTimeout, 'delete a body', () => this.store.delete(name as BlobName));
  }

  private newKey(): Buffer {
    const key = Buffer.alloc(KEY_BYTES);
    this.clock.randomFill(key);
    return key;
  }

  private storeIn(transaction: OpenTransaction | undefined): BlobStore {
    const { store } = this;
    return (transaction && store.inTransaction?.(transaction)) ?? store;
  }

  /** @throws {@link UnreadableOutcome} */
  async get(
    { store: id, name, clearBytes, storedBytes, sha256, segmentBytes, key }: BlobPointer,
    compression: CompressionHead | undefined,
    { getTimeout }: ResolvedOffload,
  ): Promise<Buffer> {
    if (id !== this.store.id) throw new UnreadableOutcome('blob_store');
    if (clearBytes > MAX_CLEAR_BYTES) throw new UnreadableOutcome('format');
    const reading = () => this.read(name as BlobName, storedBytes, getTimeout);
    const stored = await this.observed('get', reading, ({ length }) => length);
    if (stored.length !== storedBytes) throw new UnreadableOutcome('integrity');
    const content = key === undefined ? stored : openSegments(stored, key, segmentBytes);
    const body =
      compression === undefined
        ? content
        : await inflate(content, { ...compression, clearBytes }, NO_DICTIONARIES);
    const isWhole =
      body.length === clearBytes && createHash('sha256').update(body).digest().equals(sha256);
    if (!isWhole) throw new UnreadableOutcome('integrity');
    return body;
  }

  /**
   * The body as a stream, once its first bytes are there.
   * @param broken - is called if the stream fails after that, for another reason than that its reader left.
   * @throws {@link UnreadableOutcome}
   */
  async open(
    pointer: BlobPointer,
    compression: CompressionHead | undefined,
    { getTimeout }: ResolvedOffload,
    broken: (error: UnreadableOutcome) => void,
  ): Promise<LargeBody> {
    if (pointer.store !== this.store.id) throw new UnreadableOutcome('blob_store');
    const { clearBytes: bytes, key, segmentBytes } = pointer;
    const reading = new Reading(this.clock, getTimeout);
    const moved = new Promise<number>((resolve, reject) => {
      reading.ended = resolve;
      reading.failed = reject;
    });
    this.observed(
      'get',
      () => moved,
      (stored) => stored,
    ).catch(ignore);
    try {
      const stored = reading.stored(this.store, pointer.name as BlobName, pointer.storedBytes);
      const content = key === undefined ? stored : openStream(stored, key, segmentBytes);
      const clear =
        compression === undefined ? content : inflatedStream(content, compression.algorithm);
      return { bytes, stream: await reading.opened(verified(clear, pointer), broken) };
    } catch (error) {
      reading.failed(error);
      throw error;
    }
  }

  /** @returns one byte more than `atMost`, if there are more. */
  private async read(name: BlobName, atMost: number, timeoutMs: number): Promise<Buffer> {
    try {
      return await this.within(timeoutMs, 'deliver a body', async (signal) => {
        const source = present(await this.store.get(name, { signal }));
        const chunks: Buffer[] = [];
        let length = 0;
        for await (const chunk of source) {
          const bytes = chunk as Buffer;
          length += bytes.length;
          chunks.push(bytes);
          if (length > atMost) break;
        }
        return Buffer.concat(chunks);
      });
    } catch (error) {
      if (error instanceof UnreadableOutcome) throw error;
      throw new UnreadableOutcome('blob_unavailable');
    }
  }

  private async observed<Moved>(
    direction: BlobDirection,
    move: () => Promise<Moved>,
    bytesIn: (moved: Moved) => number,
  ): Promise<Moved> {
    const { clock, observer } = this;
    const startedAt = clock.now();
    const ended = (result: BlobResult, bytes: number) =>
      observer?.blobMoved(direction, result, bytes, clock.now() - startedAt);
    let moved: Moved;
    try {
      moved = await move();
    } catch (error) {
      const isMissing = error instanceof UnreadableOutcome && error.reason === 'blob_missing';
      ended(isMissing ? 'missing' : 'failed', 0);
      throw error;
    }
    ended('ok', bytesIn(moved));
    return moved;
  }

  /** A store may ignore the signal: what it does then is not waited for. */
  private async within<Result>(
    ms: number,
    what: string,
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const controller = new AbortController();
    const late = new BlobUnavailableError(`The blob store did not ${what} within ${ms} ms.`);
    try {
      return await within(ms, work(controller.signal), this.clock, late);
    } catch (error) {
      if (error === late) controller.abort(late);
      throw error;
    }
  }
}

function* segmentsOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += SEGMENT_BYTES) {
    yield bytes.subarray(at, at + SEGMENT_BYTES);
  }
}

/** @param compression - by what the blob is compressed, if it is. */
function offloaded(
  { store, name, key }: { store: string; name: BlobName; key: Buffer | undefined },
  sizes: UploadedBody,
  compression: ResolvedPackOptions['compression'] | undefined,
): Offloaded {
  return {
    pointer: { store, name, segmentBytes: SEGMENT_BYTES, ...sizes, ...(key && { key }) },
    compression: compression ? { algorithm: compression.algorithm, clearBytes: 0 } : undefined,
  };
}

export interface StartedUpload {
  readonly upload: Upload;
  readonly done: Promise<Offloaded>;
}

/** One blob that is read as a stream. */
class Reading {
  ended: (bytes: number) => void = ignore;
  failed: (error: unknown) => void = ignore;
  private bytes = 0;
  private isDone = false;
  private readonly controller = new AbortController();
  private unread: ClockTimer | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly timeoutMs: number,
  ) {}

  /** The blob as it is stored, and no byte more. */
  async *stored(
    store: BlobStore,
    name: BlobName,
    storedBytes: number,
  ): AsyncGenerator<Buffer, void, undefined> {
    const { signal } = this.controller;
    try {
      const source = present(await this.inTime(store.get(name, { signal })));
      const chunks = source[Symbol.asyncIterator]() as AsyncIterator<Uint8Array, void>;
      for (;;) {
        const next: IteratorResult<Uint8Array, void> = await this.inTime(chunks.next());
        if (next.done === true) break;
        this.bytes += next.value.length;
        if (this.bytes > storedBytes) throw new UnreadableOutcome('integrity');
        yield asBuffer(next.value);
      }
    } catch (error) {
      throw error instanceof UnreadableOutcome ? error : new UnreadableOutcome('blob_unavailable');
    }
    if (this.bytes < storedBytes) throw new UnreadableOutcome('integrity');
  }

  /** A stream of these chunks, of which the first one is there. */
  async opened(
    chunks: AsyncGenerator<Buffer, void, undefined>,
    broken: (error: UnreadableOutcome) => void,
  ): Promise<Readable> {
    let first: IteratorResult<Buffer, void>;
    try {
      first = await chunks.next();
    } catch (error) {
      this.controller.abort();
      throw error;
    }
    const stream = Readable.from(this.rest(first, chunks, broken), { objectMode: false });
    stream.once('close', () => {
      this.clock.clearTimeout(this.unread);
      // Also where it was not read to its end: the store has done what was asked of it.
      this.ended(this.bytes);
      if (!this.isDone) this.controller.abort();
    });
    this.unread = this.clock.setTimeout(destroy, this.timeoutMs, stream);
    this.unread.unref();
    return stream;
  }

  private async *rest(
    first: IteratorResult<Buffer, void>,
    chunks: AsyncGenerator<Buffer, void, undefined>,
    broken: (error: UnreadableOutcome) => void,
  ): AsyncGenerator<Buffer, void, undefined> {
    this.clock.clearTimeout(this.unread);
    try {
      for (let next = first; next.done !== true; next = await chunks.next()) yield next.value;
      this.isDone = true;
    } catch (error) {
      // Otherwise it is the reader who has left.
      if (error instanceof UnreadableOutcome && !this.controller.signal.aborted) {
        this.failed(error);
        broken(error);
      }
      throw error;
    }
  }

  private inTime<Result>(work: Promise<Result>): Promise<Result> {
    return within(this.timeoutMs, work, this.clock);
  }
}

/** The body, whose last bytes are held back until its length and its digest are those of the pointer. */
async function* verified(
  body: AsyncIterable<Buffer>,
  { clearBytes, sha256 }: BlobPointer,
): AsyncGenerator<Buffer, void, undefined> {
  const digest = createHash('sha256');
  const held = new HeldEnd();
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > clearBytes) throw new UnreadableOutcome('integrity');
    digest.update(chunk);
    held.add(chunk);
    for (const spare of held.spare()) yield asBuffer(spare);
  }
  if (bytes !== clearBytes || Buffer.compare(digest.digest(), sha256) !== 0) {
    throw new UnreadableOutcome('integrity');
  }
  for (const chunk of held.rest()) yield asBuffer(chunk);
}

function present(source: Readable | undefined): Readable {
  if (source === undefined) throw new UnreadableOutcome('blob_missing');
  return source;
}

function destroy(stream: Readable): void {
  stream.destroy();
}

function ignore(): void {
  // Nobody waits for it.
}
