/** A process that puts a blob without an end, until it is killed. */
import { Readable } from 'node:stream';
import { fileBlobs } from 'nestjs-idempotency/blobs/file';
import type { BlobName } from 'nestjs-idempotency/store';

const { directory, name } = JSON.parse(process.env.TEST_SETTINGS ?? '') as {
  readonly directory: string;
  readonly name: BlobName;
};

const store = fileBlobs({ directory });
await store.open();
console.log('{}');
const source = new Readable({
  read() {
    setTimeout(() => this.push(Buffer.alloc(1_000)), 10);
  },
});
await store.put(name, source, {
  expiresAt: new Date(Date.now() + 3_600_000),
  signal: new AbortController().signal,
});
