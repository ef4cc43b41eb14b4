import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileBlobs } from 'nestjs-idempotency/blobs/file';
import { afterTest } from '../jest/after-test.js';

/** A blob store in a folder of its own, which the test looks into. */
export async function folderOfBlobs() {
  const directory = await mkdtemp(join(tmpdir(), 'idempotency-blobs-'));
  afterTest(() => rm(directory, { recursive: true, force: true }));
  const files = async () => {
    const entries = await readdir(directory, { recursive: true, withFileTypes: true });
    return entries.filter((entry) => entry.isFile());
  };
  return {
    store: fileBlobs({ directory, fsync: false }),
    /** Of the blobs that are whole. */
    names: async () => (await files()).map(({ name }) => name),
    /** Deletes all blobs. */
    clear: async () => {
      for (const { parentPath, name } of await files()) await rm(join(parentPath, name));
    },
  };
}
