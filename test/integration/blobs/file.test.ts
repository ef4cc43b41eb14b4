import { execFile, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { mkdir, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import { fileBlobs } from 'nestjs-idempotency/blobs/file';
import { blobName, BlobUnavailableError, type BlobName } from 'nestjs-idempotency/store';
import { describeBlobStoreConformance } from 'nestjs-idempotency/testing/store';
import { spaceWarnings } from '../../support/internals/blobs.js';
import { afterTest } from '../../support/jest/after-test.js';
import { TalkingProcess } from '../../support/processes/talking-process.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';
import { until } from '../../support/waiting/until.js';
import { never, newName, put, sourceOf } from './support/blobs.js';

const run = promisify(execFile);

const DAY_MS = 86_400_000;

/** Arguments of unshare, which runs `command` where `directory` is a disk of 2 MiB. */
function onSmallDisk(directory: string, ...command: string[]): string[] {
  const script = 'mount -t tmpfs -o size=2m tmpfs "$0" && exec "$@"';
  return ['--user', '--map-root-user', '--mount', 'sh', '-c', script, directory, ...command];
}

/** Some systems let no user mount, not even for a process of its own. */
const canMount = spawnSync('unshare', onSmallDisk(tmpdir(), 'true')).status === 0;

function newFolder(): string {
  return mkdtempSync(join(tmpdir(), 'idempotency-blobs-'));
}

for (const fsync of [true, false]) {
  describeBlobStoreConformance(
    { describe, it },
    {
      name: `fileBlobs with fsync: ${String(fsync)}`,
      create: async () => {
        const directory = newFolder();
        const store = fileBlobs({ directory, fsync });
        await store.open();
        const dispose = async () => {
          await store.close();
          await rm(directory, { recursive: true });
        };
        return { store, dispose };
      },
    },
  );
}

describe('fileBlobs', () => {
  let directory: string;
  const filesLeft = async () =>
    (await readdir(directory, { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile())
      .map(({ name }) => name);

  beforeEach(() => {
    directory = newFolder();
    afterTest(() => rm(directory, { recursive: true, force: true }));
  });

  async function opened() {
    const store = fileBlobs({ directory });
    expect(await store.open()).toEqual([]);
    afterTest(() => store.close());
    return store;
  }

  it('leaves no file of its probe', async () => {
    await opened();
    expect(await filesLeft()).toEqual([]);
  });

  it('is read by a process that shares the folder', async () => {
    const [one, other] = [await opened(), await opened()];
    const name = newName();
    await put(one, name, Buffer.from('shared'));
    const stream = await other.get(name, { signal: never });
    expect((await buffer(stream!)).toString()).toBe('shared');
    await other.delete(name);
    expect(await one.get(name, { signal: never })).toBeUndefined();
  });

  it('shows nothing of a blob before its last byte is written', async () => {
    const store = await opened();
    const name = newName();
    const ended = new AbortController();
    const putting = put(store, name, sourceOf(randomBytes(5_000_000), 'wait'), {
      signal: ended.signal,
    });
    const rejected = expect(putting).rejects.toThrow('ended');
    await until(async () => (await filesLeft()).length > 0);
    await delay(100);
    expect(await store.get(name, { signal: never })).toBeUndefined();
    ended.abort(new Error('ended'));
    await rejected;
    expect(await filesLeft()).toEqual([]);
  });

  it('frees the file of a reader that stops early', async () => {
    const store = await opened();
    const name = newName();
    await put(store, name, randomBytes(1_000_000));
    const openFiles = async () => {
      const names = await readdir('/proc/self/fd');
      return names.length;
    };
    const before = await openFiles();
    for (let round = 0; round < 20; round += 1) {
      (await store.get(name, { signal: never }))!.destroy();
    }
    await until(async () => (await openFiles()) <= before);
  });

  it('keeps names that a file system would mix up or lead astray apart', async () => {
    const store = await opened();
    const names = ['d1/key/a', 'd1/KEY/a', 'd1/../../../key', `d1/${'k'.repeat(400)}/a`];
    for (const name of names) await put(store, name as BlobName, Buffer.from(name));
    for (const name of names) {
      const stream = await store.get(name as BlobName, { signal: never });
      expect((await buffer(stream!)).toString()).toBe(name);
    }
    expect(await filesLeft()).toHaveLength(names.length);
  });

  it('deletes a day once all of its blobs have been expired for a day, and no other', async () => {
    const store = await opened();
    const name = newName();
    const expiresAt = new Date();
    await put(store, name, Buffer.from('short'), { expiresAt });
    const later = newName(30 * DAY_MS);
    await put(store, later, Buffer.from('long'), {
      expiresAt: new Date(Date.now() + 30 * DAY_MS),
    });
    const endOfDay = Math.ceil(expiresAt.getTime() / DAY_MS) * DAY_MS;
    const sweptAt = async (instant: number) => {
      jest.useFakeTimers({ now: instant, doNotFake: ['nextTick', 'setImmediate', 'hrtime'] });
      try {
        const other = fileBlobs({ directory });
        await other.open();
        await other.close();
      } finally {
        jest.useRealTimers();
      }
      return store.get(name, { signal: never });
    };
    (await sweptAt(endOfDay + DAY_MS - 1))!.destroy();
    expect(await sweptAt(endOfDay + DAY_MS)).toBeUndefined();
    (await store.get(later, { signal: never }))!.destroy();
  });

  it('sweeps every hour until it is closed', async () => {
    const timed = ['nextTick', 'setImmediate', 'hrtime', 'Date'] as const;
    jest.useFakeTimers({ doNotFake: [...timed] });
    afterTest(() => jest.useRealTimers());
    const store = fileBlobs({ directory });
    await store.open();
    const plant = async () => {
      const left = join(directory, 'tmp', 'left');
      await writeFile(left, 'part');
      const old = new Date(Date.now() - 2 * DAY_MS);
      await utimes(left, old, old);
    };
    const turns = async () => {
      for (let turn = 0; turn < 500; turn += 1) await new Promise(setImmediate);
    };
    for (let round = 0; round < 2; round += 1) {
      await plant();
      jest.advanceTimersByTime(3_600_000);
      while ((await filesLeft()).length > 0) await new Promise(setImmediate);
      await turns();
    }
    await store.close();
    await plant();
    jest.advanceTimersByTime(3_600_000);
    await turns();
    expect(await filesLeft()).toEqual(['left']);
  });

  it('deletes what a killed process has left of its put, of which nothing is readable', async () => {
    const name = newName();
    const writer = new TalkingProcess(new URL('support/endless-put.ts', import.meta.url), {
      directory,
      name,
    });
    afterTest(() => writer.kill());
    await writer.next();
    await until(async () => (await filesLeft()).length > 0);
    await writer.kill();
    const store = await opened();
    expect(await store.get(name, { signal: never })).toBeUndefined();
    const [left] = await filesLeft();
    // Another process may still write it.
    expect(left).toBeDefined();
    const old = new Date(Date.now() - DAY_MS - 60_000);
    await utimes(join(directory, 'tmp', left!), old, old);
    await opened();
    expect(await filesLeft()).toEqual([]);
  }, 60_000);

  describe('reports', () => {
    it('a folder that it may not use: the start stops', async () => {
      await writeFile(join(directory, 'file'), '');
      const store = fileBlobs({ directory: join(directory, 'file') });
      await expect(store.open()).rejects.toMatchObject({
        code: 'idempotency_store_misconfigured',
        message: expect.stringContaining('ENOTDIR'),
      });
    });

    it('a folder that is gone as unavailable, not as a missing blob', async () => {
      const store = await opened();
      const name = newName();
      await put(store, name, Buffer.from('kept'));
      await rm(directory, { recursive: true });
      await expect(store.get(name, { signal: never })).rejects.toThrow(BlobUnavailableError);
      const source = sourceOf(randomBytes(100));
      await expect(put(store, name, source)).rejects.toThrow(
        'fileBlobs: open failed with ENOENT. The folder is gone, or its file system is not mounted.',
      );
      expect(source.destroyed).toBe(true);
      // An unmounted folder is not filled.
      await mkdir(directory);
      await expect(put(store, name, Buffer.from('lost'))).rejects.toThrow(BlobUnavailableError);
      expect(await readdir(directory)).toEqual([]);
    });

    it('a failure of the file system as unavailable, not as a missing blob', async () => {
      const store = await opened();
      await rm(join(directory, 'd1'), { recursive: true });
      await writeFile(join(directory, 'd1'), 'no folder');
      await expect(store.get(newName(), { signal: never })).rejects.toThrow('failed with ENOTDIR');
      await expect(store.delete(newName())).rejects.toThrow(BlobUnavailableError);
    });

    it('a file that may not be so large by its name, with a remedy', async () => {
      const script = fileURLToPath(new URL('support/full-disk.ts', import.meta.url));
      // Blocks of 512 bytes, or of 1,024 in some shells.
      const limited = ['-c', 'ulimit -f 1000 && exec "$@"', 'sh'];
      const { stdout } = await run(
        'sh',
        [...limited, process.execPath, ...typescriptNodeOptions, script],
        { env: { ...process.env, NODE_OPTIONS: '', TEST_DIRECTORY: directory } },
      );
      expect(JSON.parse(stdout)).toMatchObject({
        code: 'idempotency_blob_unavailable',
        message: expect.stringMatching(/^fileBlobs: write failed with EFBIG\. .*ulimit -f/),
        isReadable: false,
        files: [],
      });
    }, 60_000);

    (canMount ? it : it.skip)(
      'a full disk by its name, and leaves nothing',
      async () => {
        const script = fileURLToPath(new URL('support/full-disk.ts', import.meta.url));
        const node = [process.execPath, ...typescriptNodeOptions, script];
        const { stdout } = await run('unshare', onSmallDisk(directory, ...node), {
          env: { ...process.env, NODE_OPTIONS: '', TEST_DIRECTORY: directory },
        });
        expect(JSON.parse(stdout)).toEqual({
          warnings: ['blobs_disk_nearly_full'],
          code: 'idempotency_blob_unavailable',
          message: 'fileBlobs: write failed with ENOSPC. Free disk space.',
          isReadable: false,
          files: [],
        });
      },
      60_000,
    );

    it('a disk that is nearly full: below 1 GiB, and below a twentieth of a large one', () => {
      const GIB = 1024 ** 3;
      const codes = (free: number, total: number) =>
        spaceWarnings(free, total).map(({ code }) => code);
      expect(codes(GIB, 10 * GIB)).toEqual([]);
      expect(codes(GIB - 1, 10 * GIB)).toEqual(['blobs_disk_nearly_full']);
      expect(codes(5 * GIB, 100 * GIB)).toEqual([]);
      expect(codes(5 * GIB - 1, 100 * GIB)).toEqual(['blobs_disk_nearly_full']);
      expect(spaceWarnings(4 * GIB, 100 * GIB)[0]!.message).toContain('4096 of 102400 MiB (4 %)');
    });

    it('options that it does not know, and a missing folder', () => {
      expect(() => fileBlobs({} as never)).toThrow('fileBlobs: directory is required.');
      expect(() => fileBlobs({ directory: '' })).toThrow(
        'fileBlobs: The option "directory" must be a path',
      );
      expect(() => fileBlobs({ directory, sync: true } as never)).toThrow(
        '"sync" is not an option of fileBlobs. Did you mean "fsync"?',
      );
    });
  });
});

describe('The name of a blob', () => {
  it('begins with its retention, rounded up to a class', () => {
    const classOf = (ms: number) =>
      blobName(ms, 'key' as never, 'token' as never).replace('/key/token', '');
    const hours = [1, 24, 25, 48, 49, 168, 169, 720, 721, 8_760, 9_000];
    expect(hours.map((each) => classOf(each * 3_600_000))).toEqual([
      'd1',
      'd1',
      'd2',
      'd2',
      'd7',
      'd7',
      'd30',
      'd30',
      'd365',
      'd365',
      'd365',
    ]);
  });
});
