import { Readable } from 'node:stream';
import { BlobStore } from 'nestjs-idempotency/store';
import type * as Store from 'nestjs-idempotency/store';
import type { Mishaps } from './mishaps.js';

/** Between the library and its blob store: holds the points around a put. */
export class ObservedBlobs extends BlobStore {
  readonly id: string;

  constructor(
    private readonly real: BlobStore,
    private readonly mishaps: Pick<Mishaps, 'at'>,
  ) {
    super();
    this.id = real.id;
  }

  override open(): Promise<readonly Store.StoreWarning[]> {
    return this.real.open();
  }

  override async put(name: Store.BlobName, source: Readable, hints: Store.PutHints): Promise<void> {
    await this.mishaps.at('before_put');
    await this.real.put(name, Readable.from(this.#passing(source), { highWaterMark: 1 }), hints);
    await this.mishaps.at('after_put');
  }

  override get(name: Store.BlobName, options: Store.GetOptions): Promise<Readable | undefined> {
    return this.real.get(name, options);
  }

  override delete(name: Store.BlobName): Promise<void> {
    return this.real.delete(name);
  }

  override close(): Promise<void> {
    return this.real.close();
  }

  async *#passing(source: Readable): AsyncGenerator<Buffer, void, undefined> {
    let chunks = 0;
    for await (const chunk of source as AsyncIterable<Buffer>) {
      // The store asks for the third one when it has written the first.
      if (chunks === 2) await this.mishaps.at('in_put');
      chunks += 1;
      yield chunk;
    }
  }
}
