import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import {
  BlobStore,
  BlobUnavailableError,
  type BlobName,
  type GetOptions,
  type PutHints,
} from '../../../core/payload/blob-store.js';
import { asError } from '../../../core/errors/errors.js';
import { nodeClock } from '../../../core/util/clock.js';
import { withSource } from '../../../blobs/shared/blob-source.js';
import type { BlobStatements, SqlStatement } from '../sql/sql-statements.js';
import type { SqlValue } from './statement-runner.js';

/** Sends a statement. @returns the words of the reply after the nonce. */
export type RunStatement = (
  statement: SqlStatement,
  values: SqlValue[],
) => Promise<readonly string[]>;

/** An upload is over long before. */
const ABANDONED_MS = 86_400_000;

/**
 * Blobs in the rows of a table, each row a part. The parts of an upload have a name of their own, until a single statement
 * gives them the name of the blob: so no reader sees a part of it, without a transaction that lasts as long as the upload.
 */
export class TableBlobs extends BlobStore {
  readonly id = 'postgres';

  constructor(
    protected readonly run: RunStatement,
    private readonly statements: BlobStatements,
    private readonly chunkBytes: number,
  ) {
    super();
  }

  override put(name: BlobName, stream: Readable, hints: PutHints): Promise<void> {
    return withSource(stream, hints, async (source) => {
      await this.prepare(hints.signal);
      const upload = `upload/${randomUUID()}`;
      try {
        let part = 0;
        for await (const bytes of inParts(source, this.chunkBytes)) {
          await this.run(this.statements['store-part'], [upload, part, bytes, ABANDONED_MS]);
          part += 1;
        }
        source.throwIfFailed();
        await this.publish(upload, name, hints.expiresAt);
      } catch (error) {
        // The caller hears of the failure, and what stays expires.
        await this.remove(upload).catch(() => undefined);
        throw unavailable(error);
      }
    });
  }

  override async get(
    name: BlobName,
    { offset = 0, signal }: GetOptions,
  ): Promise<Readable | undefined> {
    signal.throwIfAborted();
    const found = await this.find(name);
    signal.throwIfAborted();
    if (found === undefined) return undefined;
    const parts = this.read(name, offset, found);
    return Readable.from(parts, { objectMode: false, highWaterMark: 1, signal });
  }

  override async delete(name: BlobName): Promise<void> {
    try {
      await this.remove(name);
    } catch (error) {
      throw unavailable(error);
    }
  }

  override close(): Promise<void> {
    return Promise.resolve();
  }

  /** Called before the first part of a put is stored. */
  protected prepare(_signal: AbortSignal): Promise<void> {
    return Promise.resolve();
  }

  private async publish(upload: string, name: BlobName, expiresAt: Date): Promise<void> {
    const leftMs = Math.max(0, Math.ceil(expiresAt.getTime() - nodeClock.wallTime()));
    let failure: unknown = new BlobUnavailableError(
      'postgresBlobs: the parts of the upload are gone.',
    );
    try {
      const [parts] = await this.run(this.statements.publish, [upload, name, leftMs]);
      if (parts !== '0') return;
    } catch (error) {
      failure = error;
    }
    // An earlier copy of the statement has done it, or another upload of the same bytes.
    if ((await this.find(name)) === undefined) throw failure;
    await this.remove(upload);
  }

  private async find(name: BlobName): Promise<FoundBlob | undefined> {
    try {
      const [last, partBytes] = await this.run(this.statements.find, [name]);
      if (last === undefined) return undefined;
      return { last: Number(last), partBytes: Number(partBytes) };
    } catch (error) {
      throw unavailable(error);
    }
  }

  private async *read(
    name: BlobName,
    offset: number,
    { last, partBytes }: FoundBlob,
  ): AsyncGenerator<Buffer, void, undefined> {
    const first = partBytes === 0 ? 0 : Math.floor(offset / partBytes);
    let skipped = offset - first * partBytes;
    for (let part = first; part <= last; part += 1) {
      const [text] = await this.readPart(name, part);
      if (text === undefined) {
        throw new BlobUnavailableError('postgresBlobs: the blob was deleted while it was read.');
      }
      yield Buffer.from(text, 'base64').subarray(skipped);
      skipped = 0;
    }
  }

  private async readPart(name: BlobName, part: number): Promise<readonly string[]> {
    try {
      return await this.run(this.statements['read-part'], [name, part]);
    } catch (error) {
      throw unavailable(error);
    }
  }

  private async remove(name: string): Promise<void> {
    await this.run(this.statements.delete, [name]);
  }
}

interface FoundBlob {
  /** The number of its last part. */
  readonly last: number;
  /** Of every part but the last. */
  readonly partBytes: number;
}

/** Parts of so many bytes, of which the last may be shorter; at least one, which may be empty. */
async function* inParts(
  source: AsyncIterable<Buffer>,
  bytes: number,
): AsyncGenerator<Buffer, void, undefined> {
  let pending: Buffer[] = [];
  let length = 0;
  let isEmpty = true;
  for await (const chunk of source) {
    pending.push(chunk);
    length += chunk.length;
    if (length < bytes) continue;
    const whole = Buffer.concat(pending);
    let at = 0;
    for (; length - at >= bytes; at += bytes) {
      yield whole.subarray(at, at + bytes);
      isEmpty = false;
    }
    pending = [whole.subarray(at)];
    length -= at;
  }
  if (length > 0 || isEmpty) yield Buffer.concat(pending);
}

function unavailable(error: unknown): BlobUnavailableError {
  if (error instanceof BlobUnavailableError) return error;
  const cause = asError(error);
  return new BlobUnavailableError(`postgresBlobs: ${cause.message}`, { cause });
}
