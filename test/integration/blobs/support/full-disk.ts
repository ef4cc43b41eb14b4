/** A process whose blobs do not fit on the disk of their folder, which it alone sees. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileBlobs } from 'nestjs-idempotency/blobs/file';
import type { BlobUnavailableError } from 'nestjs-idempotency/store';
import { never, newName, put } from './blobs.js';

const directory = process.env.TEST_DIRECTORY ?? '';
const store = fileBlobs({ directory });
const warnings = (await store.open()).map(({ code }) => code);
const name = newName();
const failure: unknown = await put(store, name, Buffer.alloc(4_000_000)).catch(
  (error: unknown) => error,
);
const { code, message } = failure as BlobUnavailableError;
const stored = await store.get(name, { signal: never });
const files = await readdir(join(directory, 'tmp'));
console.log(JSON.stringify({ warnings, code, message, isReadable: stored !== undefined, files }));
