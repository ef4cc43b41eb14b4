import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { OwnerToken, RecordKey } from '../record/record.js';
import type { OpenTransaction } from '../transaction/unit-of-work.js';
import type { Clock } from '../util/clock.js';
import { within } from '../util/time.js';
import type { BlobDirection, BlobObserver, BlobResult } from '../record/blob-observer.js';
import { BlobUnavailableError, blobName, type BlobName, type BlobStore } from './blob-store.js';
import { compress, inflate, NO_DICTIONARIES } from './compression.js';
import type { BlobPointer, CompressionHead } from './frame.js';
import type { ResolvedOffload, ResolvedPackOptions } from './pack-options.js';
import { openSegments, SEGMENT_BYTES, sealedSegments } from './segments.js';
import { UnreadableOutcome } from './unreadable-outcome.js';

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
  constructor(
    private readonly store: BlobStore,
    private readonly clock: Clock,
    private readonly observer?: BlobObserver,
  ) {}

  /** @throws {@link BlobUnavailableError}, or another error of the store. */
  async put(
    body: Uint8Array,
    { recordKey, token, retentionMs, transaction }: BlobOwner,
    compression: ResolvedPackOptions['compression'],
    isEncrypted: boolean,
    { putTimeout }: ResolvedOffload,
  ): Promise<Offloaded> {
    const { clock } = this;
    const store = this.storeIn(transaction);
    const compressed =
      compression === false || body.length < compression.thresholdBytes
        ? undefined
        : await compress(body, compression, undefined);
    const bytes = compressed ?? body;
    const key = isEncrypted ? Buffer.alloc(KEY_BYTES) : undefined;
    if (key !== undefined) clock.randomFill(key);
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
    const sizes = { clearBytes: body.length, storedBytes, segmentBytes: SEGMENT_BYTES };
    const pointer = { store: store.id, name, sha256, ...sizes, ...(key && { key }) };
    const head =
      compression === false || compressed === undefined
        ? undefined
        : { algorithm: compression.algorithm, clearBytes: body.length };
    return { pointer, compression: head };
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
    const reading = () => this.read(name as BlobName, storedBytes, getTimeout);
    const stored = await this.observed('get', reading, ({ length }) => length);
    if (stored.length !== storedBytes) throw new UnreadableOutcome('integrity');
    const content = key === undefined ? stored : openSegments(stored, key, segmentBytes);
    const body =
      compression === undefined ? content : await inflate(content, compression, NO_DICTIONARIES);
    const isWhole =
      body.length === clearBytes && createHash('sha256').update(body).digest().equals(sha256);
    if (!isWhole) throw new UnreadableOutcome('integrity');
    return body;
  }

  /** @returns one byte more than `atMost`, if there are more. */
  private async read(name: BlobName, atMost: number, timeoutMs: number): Promise<Buffer> {
    try {
      return await this.within(timeoutMs, 'deliver a body', async (signal) => {
        const source = await this.store.get(name, { signal });
        if (source === undefined) throw new UnreadableOutcome('blob_missing');
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
