import {
  idempotentFetch,
  IdempotentFetchError,
  newIdempotencyKey,
} from 'nestjs-idempotency-client';
import type { Api } from './payment.js';

interface Queued {
  readonly key: string;
  readonly body: string;
}

/** What survives the end of the app: AsyncStorage, MMKV, SQLite, IndexedDB. */
export interface Disk {
  read(): Promise<readonly Queued[]>;
  write(queue: readonly Queued[]): Promise<void>;
}

/** Operations of an app that may be offline, or closed, at any time. */
export class OfflineQueue {
  constructor(
    private readonly api: Api,
    private readonly disk: Disk,
    private readonly onDone: (key: string, response: Response) => Promise<void>,
  ) {}

  /** The key and the bytes are on disk before the first try. */
  async add(operation: object): Promise<string> {
    const queued = { key: newIdempotencyKey(), body: JSON.stringify(operation) };
    await this.disk.write([...(await this.disk.read()), queued]);
    return queued.key;
  }

  /** At the start of the app and when it is online again. Call it once at a time. */
  async flush(): Promise<void> {
    for (const { key, body } of await this.disk.read()) {
      const { url, token } = this.api;
      const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
      try {
        const sent = { method: 'POST', headers, body };
        const { response } = await idempotentFetch(url, sent, { key, maxTries: 3 });
        await this.onDone(key, response); // may be called again for this key after a crash
      } catch (error) {
        if (error instanceof IdempotentFetchError && error.retryable) return; // the next flush
        throw error; // not retryable: a mistake in the app, or a key used twice
      }
      await this.disk.write((await this.disk.read()).filter((queued) => queued.key !== key));
    }
  }
}
