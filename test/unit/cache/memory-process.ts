/** A process that fills caches, and says what they have counted and what its memory has grown by. */
import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { FinishedReplies } from '../../../lib/cache/finished-replies.js';
import { digest, fingerprint } from '../../../lib/core/fingerprint.js';
import type { RecordKey } from '../../../lib/core/record.js';

/** In bytes, of all replies together. */
export interface MemoryTaken {
  readonly bodyBytes: number;
  readonly bodies: number;
  readonly counted: number;
  readonly heap: number;
  readonly buffers: number;
}

const REPLIES = 20_000;
/** As a client's parser hands it over: a reply is a piece of what came over the wire at once. */
const CHUNK_BYTES = 65_536;
const clock = () => ({ monotonic: 0, wall: 0 });

async function settled() {
  for (let time = 0; time < 4; time += 1) {
    globalThis.gc?.();
    await pause(10);
  }
  return process.memoryUsage();
}

async function fill(bodyBytes: number): Promise<MemoryTaken> {
  const replies = new FinishedReplies(LRUCache, { maxBytes: 2 ** 40, maxAgeMs: 1 }, clock);
  const before = await settled();
  for (let i = 0; i < REPLIES; i += 1) {
    const chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES);
    const body = chunk.subarray(100, 100 + bodyBytes);
    const header = Buffer.from(randomBytes(60).toString('hex')).toString();
    const recordKey = digest([randomBytes(16)]) as RecordKey;
    const reply = { kind: 'completed', outcome: { header, body }, retentionLeftMs: 1 } as const;
    replies.keep(recordKey, fingerprint([randomBytes(16)]), reply, clock());
  }
  const after = await settled();
  const { bytes: counted, size } = replies;
  if (size !== REPLIES) throw new Error(`${size} replies are kept`);
  return {
    bodyBytes,
    bodies: REPLIES * bodyBytes,
    counted,
    heap: after.heapUsed - before.heapUsed,
    buffers: after.arrayBuffers - before.arrayBuffers,
  };
}

const taken: MemoryTaken[] = [];
for (const bodyBytes of [0, 200, 4_000]) taken.push(await fill(bodyBytes));
console.log(JSON.stringify(taken));
