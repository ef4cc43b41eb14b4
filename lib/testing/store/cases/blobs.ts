import assert from 'node:assert/strict';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { blobCasesOf, contentOf, KIB, MIB, sourceOf } from '../kit/blob-case.js';

/** Around the usual sizes of pieces, and more than two parts of an upload to an object store. */
const SIZES = [0, 1, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 20 * MIB];

/** Before the first part of an upload is sent, and after it. */
const BROKEN_AFTER = [100 * KIB, 18 * MIB];

const DAY_MS = 86_400_000;

/** More than a pool of connections or sockets has. */
const ABANDONED_READS = 60;

/** What a stream that is not read may hold. */
const MOST_BUFFERED = 2 * MIB;

const put = blobCasesOf('put', (it) => {
  for (const bytes of SIZES) {
    it(`stores ${bytes.toLocaleString('en')} bytes`, async (blob) => {
      const content = contentOf(bytes);
      await blob.put(content);
      await blob.holds(content);
    });
  }

  it.large('stores 100 MiB', async (blob) => {
    const content = contentOf(100 * MIB);
    await blob.put(content);
    await blob.holds(content);
  });

  it('stores a source of unknown length', async (blob) => {
    const content = contentOf(300 * KIB);
    await blob.put(content, { bytes: undefined });
    await blob.holds(content);
  });

  it('accepts every retention and its expiry', async (blob) => {
    for (const days of [1, 2, 7, 30, 365]) {
      const other = blob.neighbour(days * DAY_MS);
      const content = contentOf(10);
      await other.put(content, { expiresAt: new Date(Date.now() + days * DAY_MS) });
      await other.holds(content);
      await other.store.delete(other.name);
    }
  });

  it('keeps the blobs of two names apart', async (blob) => {
    const [one, other] = [contentOf(1_000), contentOf(2_000)];
    const neighbour = blob.neighbour();
    await Promise.all([blob.put(one), neighbour.put(other)]);
    await blob.holds(one);
    await neighbour.holds(other);
  });

  it('accepts the same bytes under the same name again', async (blob) => {
    const content = contentOf(200 * KIB);
    await blob.put(content);
    await blob.put(content);
    await blob.holds(content);
  });

  it('accepts the same bytes under the same name at the same time', async (blob) => {
    const content = contentOf(200 * KIB);
    await Promise.all([blob.put(content), blob.put(content), blob.put(content)]);
    await blob.holds(content);
  });

  for (const bytes of BROKEN_AFTER) {
    const after = `after ${String(bytes / KIB)} KiB`;

    it(`rejects with the reason of its signal, and leaves nothing readable: ${after}`, async (blob) => {
      const ended = new AbortController();
      const source = sourceOf(contentOf(bytes), 'wait');
      const putting = blob.put(source, { signal: ended.signal });
      const rejected = assert.rejects(putting, (error) => error === reason);
      const reason = new Error('the caller has left');
      await delay(200);
      ended.abort(reason);
      await rejected;
      assert.ok(source.destroyed, 'the source is not destroyed');
      await blob.isAbsent();
    });

    it(`rejects with the error of its source, and leaves nothing readable: ${after}`, async (blob) => {
      const failure = new Error('the handler failed');
      const putting = blob.put(sourceOf(contentOf(bytes), failure));
      await assert.rejects(putting, (error) => error === failure);
      await blob.isAbsent();
    });

    it(`rejects a source that is closed before its end: ${after}`, async (blob) => {
      await assert.rejects(blob.put(sourceOf(contentOf(bytes), 'close')));
      await blob.isAbsent();
    });
  }

  it('rejects at once if its signal is aborted', async (blob) => {
    const reason = new Error('too late');
    const putting = blob.put(contentOf(10), { signal: AbortSignal.abort(reason) });
    await assert.rejects(putting, (error) => error === reason);
    await blob.isAbsent();
  });

  it('rejects a source that is shorter or longer than announced', async (blob) => {
    await assert.rejects(blob.put(contentOf(10), { bytes: 11 }));
    await assert.rejects(blob.put(contentOf(10), { bytes: 9 }));
    await blob.isAbsent();
  });
});

const get = blobCasesOf('get', (it) => {
  it('returns nothing without a blob', async (blob) => {
    await blob.isAbsent();
  });

  it('begins at the offset, which may be the end or behind it', async (blob) => {
    const content = contentOf(MIB);
    await blob.put(content);
    for (const offset of [0, 1, 64 * KIB, 256 * KIB, 300_001, MIB - 1, MIB, MIB + 1]) {
      await blob.holds(content.subarray(offset), offset);
    }
  });

  it('serves several readers at a time', async (blob) => {
    const content = contentOf(MIB);
    await blob.put(content);
    await Promise.all(Array.from({ length: 8 }, () => blob.holds(content)));
  });

  it('reads no faster than the reader', async (blob) => {
    const content = contentOf(20 * MIB);
    await blob.put(content);
    const stream = await blob.opened();
    for (let round = 0; round < 5; round += 1) {
      await once(stream, 'readable');
      stream.read(1);
      await delay(50);
      assert.ok(stream.readableLength <= MOST_BUFFERED, 'it has read ahead');
    }
    stream.destroy();
  });

  it('frees what a reader held that stopped early', async (blob) => {
    await blob.put(contentOf(2 * MIB));
    for (let round = 0; round < ABANDONED_READS; round += 1) {
      const stream = await blob.opened();
      await once(stream, 'readable');
      const closed = once(stream, 'close');
      stream.destroy();
      await closed;
    }
    (await blob.opened()).destroy();
  });

  it('ends the stream with an error when its signal is aborted', async (blob) => {
    await blob.put(contentOf(4 * MIB));
    const ended = new AbortController();
    const stream = await blob.opened(0, ended.signal);
    await once(stream, 'readable');
    const failed = once(stream, 'error');
    ended.abort(new Error('the reader has left'));
    await failed;
    assert.ok(!stream.readableEnded, 'it has ended');
  });

  it('rejects if its signal is aborted', async (blob) => {
    await blob.put(contentOf(10));
    await assert.rejects(blob.open(0, AbortSignal.abort()));
  });
});

const deletion = blobCasesOf('delete', (it) => {
  it('deletes the blob, and no other', async (blob) => {
    const content = contentOf(10);
    const neighbour = blob.neighbour();
    await blob.put(contentOf(300 * KIB));
    await neighbour.put(content);
    await blob.store.delete(blob.name);
    await blob.isAbsent();
    await neighbour.holds(content);
  });

  it('accepts an absent blob, and one that is deleted already', async (blob) => {
    await blob.store.delete(blob.name);
    await blob.put(contentOf(10));
    await blob.store.delete(blob.name);
    await blob.store.delete(blob.name);
    await blob.isAbsent();
  });
});

const open = blobCasesOf('open', (it) => {
  it('works again after each close and open', async (blob) => {
    const content = contentOf(10);
    for (let round = 0; round < 2; round += 1) {
      await blob.store.close();
      await blob.store.open();
      await blob.put(content);
      await blob.holds(content);
    }
  });

  it('has an id that a pointer can hold', async ({ store }) => {
    assert.match(store.id, /^[a-z0-9-]{1,16}$/);
    return Promise.resolve();
  });
});

export const blobs = [...put, ...get, ...deletion, ...open];
