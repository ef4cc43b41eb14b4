import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { Begin, IdempotencyRecord } from 'nestjs-idempotency/store';
import type { OwnerToken, RecordKey } from '../../../support/internals/core.js';
import { ioredisLink, RedisIdempotencyStore } from '../../../support/internals/redis.js';
import { clockedScripts, setClock, START_MS } from '../../../support/redis/scripts.js';
import { useRedis, useRedisClient } from '../../../support/redis/use-redis.js';
import {
  beginCommand,
  completeCommand,
  extendCommand,
  FINGERPRINT,
  leaseOf,
  releaseCommand,
  TIMEOUT_MS,
} from '../../../support/stores/commands.js';

const server = useRedis();
const client = useRedisClient(server);

const FOLDER = import.meta.dirname;
const RECORD_KEY = 'golden' as RecordKey;
const KEY = `idem:1:${RECORD_KEY}`;
/** The microseconds need leading zeros. */
const STARTED_US = START_MS * 1_000 + 4_217;
const FENCE = STARTED_US;
const NOTE = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const BYTES = Buffer.from([0, 10, 13, 0x32, 0x70, 0xc3, 0xff, 10]);

/** In the year 2255, the last one whose microseconds a double holds exactly. */
const LATE_MS = 9_007_199_000_000;

const begin = beginCommand({
  recordKey: RECORD_KEY,
  token: 'bXktb3duLXRva2VuLTAwMQ' as OwnerToken,
});
const noted = { ...begin, note: NOTE };
const lease = leaseOf(begin, FENCE);
const earlier = { ...noted, token: 'ZWFybGllci10b2tlbi0wMQ' as OwnerToken };

interface Golden {
  readonly write: (at: (afterMs: number) => Promise<RedisIdempotencyStore>) => Promise<unknown>;
  /** What inspect returns one second after the last write. */
  readonly record: Omit<IdempotencyRecord, 'ageMs'>;
}

const first = { fence: FENCE, attempt: 1, takeovers: 0, fingerprint: FINGERPRINT } as const;
const IN_PROGRESS_MS = begin.recordRetentionMs;
const FINISHED_MS = completeCommand().retentionMs;

const GOLDEN: Readonly<Record<string, Golden>> = {
  'in-progress': {
    write: async (at) => (await at(0)).begin(begin),
    record: {
      ...first,
      state: 'in_progress',
      retentionLeftMs: IN_PROGRESS_MS - 1_000,
      leaseLeftMs: 9_000,
    },
  },
  'in-progress-with-origin-and-note': {
    write: async (at) => (await at(0)).begin({ ...noted, origin: 'WyJvcmRlcnMiXQ' }),
    record: {
      ...first,
      state: 'in_progress',
      retentionLeftMs: IN_PROGRESS_MS - 1_000,
      leaseLeftMs: 9_000,
      origin: 'WyJvcmRlcnMiXQ',
      note: NOTE,
    },
  },
  'in-progress-extended': {
    write: async (at) => {
      await (await at(0)).begin(begin);
      await (await at(4_000)).extend(lease, extendCommand());
    },
    record: {
      ...first,
      state: 'in_progress',
      retentionLeftMs: IN_PROGRESS_MS - 1_000,
      leaseLeftMs: 9_000,
    },
  },
  'in-progress-past-its-deadline': {
    write: async (at) => {
      const short: Begin = { ...begin, maxExecutionMs: 20_000 };
      await (await at(0)).begin(short);
      await (await at(25_000)).begin(short);
    },
    record: {
      ...first,
      state: 'in_progress',
      retentionLeftMs: IN_PROGRESS_MS - 1_000,
      leaseLeftMs: -6_000,
    },
  },
  'in-progress-taken-over': {
    write: async (at) => {
      await (await at(0)).begin(earlier);
      await (await at(15_000)).begin(begin);
    },
    record: {
      ...first,
      state: 'in_progress',
      fence: STARTED_US + 15_000_000,
      attempt: 2,
      takeovers: 1,
      retentionLeftMs: IN_PROGRESS_MS - 1_000,
      leaseLeftMs: 9_000,
      note: NOTE,
    },
  },
  'in-progress-at-a-large-instant': {
    write: async (at) => {
      const lateMs = LATE_MS - START_MS;
      await (await at(lateMs)).begin(earlier);
      await (await at(lateMs + 7)).release(leaseOf(earlier, 0), releaseCommand());
      await (await at(lateMs + 20)).begin(begin);
    },
    record: {
      ...first,
      state: 'in_progress',
      fence: LATE_MS * 1_000 + 24_217,
      attempt: 2,
      retentionLeftMs: IN_PROGRESS_MS - 1_000,
      leaseLeftMs: 9_000,
      note: NOTE,
    },
  },
  completed: {
    write: async (at) => {
      await (await at(0)).begin(begin);
      await (await at(7)).complete(lease, completeCommand());
    },
    record: {
      ...first,
      state: 'completed',
      retentionLeftMs: FINISHED_MS - 1_000,
      outcome: completeCommand().outcome,
    },
  },
  'completed-with-note-and-bytes': {
    write: async (at) => {
      await (await at(0)).begin(noted);
      const outcome = { header: '"Zoë"', body: BYTES };
      await (await at(7)).complete(lease, completeCommand({ outcome }));
    },
    record: {
      ...first,
      state: 'completed',
      retentionLeftMs: FINISHED_MS - 1_000,
      note: NOTE,
      outcome: { header: '"Zoë"', body: BYTES },
    },
  },
  'completed-after-a-release': {
    write: async (at) => {
      await (await at(0)).begin(earlier);
      await (await at(7)).release(leaseOf(earlier, FENCE), releaseCommand());
      await (await at(9)).complete(leaseOf(begin, FENCE + 5), completeCommand());
    },
    record: {
      ...first,
      state: 'completed',
      fence: FENCE + 5,
      retentionLeftMs: FINISHED_MS - 1_000,
      note: NOTE,
      outcome: completeCommand().outcome,
    },
  },
  'completed-restored': {
    write: async (at) => {
      await (await at(0)).complete(leaseOf(begin, 0), completeCommand({ whenGone: 'restore' }));
    },
    record: {
      ...first,
      state: 'completed',
      retentionLeftMs: FINISHED_MS - 1_000,
      outcome: completeCommand().outcome,
    },
  },
  failed: {
    write: async (at) => {
      await (await at(0)).begin(begin);
      const outcome = { header: '', body: Buffer.alloc(0) };
      await (await at(7)).complete(lease, completeCommand({ state: 'failed', outcome }));
    },
    record: {
      ...first,
      state: 'failed',
      retentionLeftMs: FINISHED_MS - 1_000,
      outcome: { header: '', body: Buffer.alloc(0) },
    },
  },
  released: {
    write: async (at) => {
      await (await at(0)).begin(noted);
      await (await at(7)).release(lease, releaseCommand());
    },
    record: { ...first, state: 'released', retentionLeftMs: FINISHED_MS - 1_000, note: NOTE },
  },
};

function golden(name: string): Buffer {
  return Buffer.from(readFileSync(join(FOLDER, `${name}.hex`), 'utf8').replace(/\s/g, ''), 'hex');
}

it('each file is tested', () => {
  const files = readdirSync(FOLDER).filter((file) => file.endsWith('.hex'));
  expect(files.sort()).toEqual(
    Object.keys(GOLDEN)
      .map((name) => `${name}.hex`)
      .sort(),
  );
});

describe.each([
  ['with flags, if the server has them', true],
  ['without flags', false],
])('The scripts %s', (_, isOpened) => {
  let store: RedisIdempotencyStore;
  let nowUs: number;

  beforeEach(async () => {
    await client.del(KEY);
    store = new RedisIdempotencyStore({ link: () => ioredisLink(client), scripts: clockedScripts });
    // Reads the server's version.
    if (isOpened) await store.open();
  });

  afterEach(() => store.close());

  const at = async (afterMs: number) => {
    nowUs = STARTED_US + afterMs * 1_000;
    await setClock(client, nowUs);
    return store;
  };

  it.each(Object.entries(GOLDEN))('write the bytes of %s', async (name, { write }) => {
    await write(at);
    expect((await client.getBuffer(KEY))?.toString('hex')).toBe(golden(name).toString('hex'));
  });

  it.each(Object.entries(GOLDEN))('read %s', async (name, { write, record }) => {
    await write(at);
    await client.set(KEY, golden(name));
    await setClock(client, nowUs + 1_000_000);
    const ageMs = Math.floor((nowUs + 1_000_000) / 1_000) - Math.floor(record.fence / 1_000);
    const read = await store.inspect(RECORD_KEY, { timeoutMs: TIMEOUT_MS });
    expect(read).toEqual({ ...record, ageMs });
  });
});
