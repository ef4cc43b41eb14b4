import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { LRUCache } from 'lru-cache';
import type { Fingerprint, RecordKey } from 'nestjs-idempotency';
import { FinishedReplies } from '../../../lib/cache/finished-replies.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';
import { newRecordKey, outcomeOf } from './cache-under-test.js';
import type { MemoryTaken } from './memory-process.js';

const PRINT = 'content' as Fingerprint;
const MAX_BYTES = 65_536;
const MAX_AGE_MS = 1_000;
const RETENTION_MS = 60_000;
/** What Node has in reserve for small buffers. */
const SLAB_BYTES = 65_536;

function open(maxBytes = MAX_BYTES) {
  let now = 0;
  const clock = () => ({ monotonic: now, wall: now });
  const replies = new FinishedReplies(LRUCache, { maxBytes, maxAgeMs: MAX_AGE_MS }, clock);
  const keep = (body: string | Uint8Array, header = '{}'): RecordKey => {
    const recordKey = newRecordKey();
    const outcome = outcomeOf(body, header);
    const reply = { kind: 'completed', outcome, retentionLeftMs: RETENTION_MS } as const;
    replies.keep(recordKey, PRINT, reply, clock());
    return recordKey;
  };
  const has = (recordKey: RecordKey) => replies.find(recordKey, PRINT) !== undefined;
  const pass = (ms: number) => void (now += ms);
  return { replies, keep, has, pass };
}

describe('maxBytes', () => {
  it('is never exceeded: what was not asked for the longest leaves', () => {
    const { replies, keep, has } = open();
    const popular = keep('popular');
    const keys: RecordKey[] = [];
    for (let i = 0; i < 200; i += 1) {
      keys.push(keep('x'.repeat(i * 10)));
      expect(has(popular)).toBe(true);
      expect(replies.bytes).toBeLessThanOrEqual(MAX_BYTES);
    }
    expect(replies.bytes).toBeGreaterThan(MAX_BYTES * (7 / 8));
    const kept = keys.map(has);
    expect(kept.lastIndexOf(false)).toBeLessThan(kept.indexOf(true));
    expect(kept.filter((isKept) => isKept)).toHaveLength(replies.size - 1);
  });

  it('counts the body, the header, the names and what the keeping takes', () => {
    const bytesOf = (body: string, header?: string) => {
      const { replies, keep } = open();
      keep(body, header);
      return replies.bytes;
    };
    const least = bytesOf('');
    expect(least).toBeGreaterThan(800);
    expect(bytesOf('x'.repeat(1_000))).toBe(least + 1_000);
    expect(bytesOf('ü'.repeat(1_000))).toBe(least + 2_000);
    expect(bytesOf('', `{}${'x'.repeat(1_000)}`)).toBe(least + 2_000);
  });

  it('counts a record that is kept anew once', () => {
    const { replies, keep } = open();
    keep('x');
    const { bytes } = replies;
    const outcome = outcomeOf('x');
    const again = { kind: 'completed', outcome, retentionLeftMs: RETENTION_MS } as const;
    const recordKey = newRecordKey();
    const now = { monotonic: 0, wall: 0 };
    for (let time = 0; time < 3; time += 1) replies.keep(recordKey, PRINT, again, now);
    expect(replies).toMatchObject({ size: 2, bytes: 2 * bytes });
  });

  it('is not spent on one reply of more than an eighth, which would push out the others', () => {
    const { keep, has } = open();
    const small = keep('small');
    const largest = (eighth: number) => {
      const { replies, keep: alone } = open();
      alone('');
      return 'x'.repeat(eighth - replies.bytes);
    };
    expect(has(keep(largest(MAX_BYTES / 8)))).toBe(true);
    expect(has(keep(`${largest(MAX_BYTES / 8)}x`))).toBe(false);
    expect(has(small)).toBe(true);
  });
});

describe('a reply whose time is over', () => {
  it('leaves with those that come after it, although nobody asks', () => {
    const { replies, keep, pass } = open();
    for (let i = 0; i < 10; i += 1) keep('old');
    pass(MAX_AGE_MS);
    for (let i = 1; i <= 5; i += 1) {
      keep('new');
      expect(replies.size).toBe(10 - 2 * i + i);
    }
    keep('new');
    expect(replies.size).toBe(6);
  });

  it('leaves when it is asked for', () => {
    const { replies, keep, has, pass } = open();
    const recordKey = keep('old');
    pass(MAX_AGE_MS);
    expect(has(recordKey)).toBe(false);
    expect(replies).toMatchObject({ size: 0, bytes: 0 });
  });
});

describe('the memory of a process', () => {
  it('grows by no more than what is counted, though the replies are pieces of large buffers', async () => {
    const script = fileURLToPath(new URL('memory-process.ts', import.meta.url));
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--expose-gc', ...typescriptNodeOptions, script],
      { timeout: 60_000 },
    );
    const taken = JSON.parse(stdout) as MemoryTaken[];
    expect(taken.map(({ bodyBytes }) => bodyBytes)).toEqual([0, 200, 4_000]);
    for (const { counted, heap, buffers, bodies } of taken) {
      expect(buffers).toBeLessThanOrEqual(bodies + SLAB_BYTES);
      expect(heap + buffers).toBeLessThanOrEqual(counted);
      // Nor is half of it wasted.
      expect(counted).toBeLessThan(2 * (heap + buffers));
    }
  }, 90_000);
});
