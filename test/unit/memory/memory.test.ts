import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  MemoryIdempotencyStore,
  memoryStore,
  type MemoryStoreOptions,
} from 'nestjs-idempotency/memory';
import {
  type Begin,
  type Complete,
  type Fingerprint,
  type Lease,
  type OwnerToken,
  type RecordKey,
  StoreUnavailableError,
} from '../../support/internals/core.js';
import { ExpiryQueue } from '../../support/internals/memory.js';

interface Entry {
  readonly key: string;
  expiresAt: number;
  position: number;
}

const keys = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h');
const instants = fc.integer({ min: 0, max: 20 });
const operations = fc.array(
  fc.oneof(fc.record({ set: keys, expiresAt: instants }), fc.record({ takeBefore: instants })),
  { maxLength: 60 },
);

describe('ExpiryQueue', () => {
  it('returns expired keys, first what expired first, however often keys were moved', () => {
    fc.assert(
      fc.property(operations, (steps) => {
        const queue = new ExpiryQueue<Entry>();
        const model = new Map<string, Entry>();
        for (const step of steps) {
          if ('set' in step) {
            const { set: key, expiresAt } = step;
            const entry = model.get(key) ?? { key, expiresAt, position: -1 };
            entry.expiresAt = expiresAt;
            if (model.has(key)) queue.move(entry);
            else queue.add(entry);
            model.set(key, entry);
            continue;
          }
          const earliest = Math.min(...[...model.values()].map(({ expiresAt }) => expiresAt));
          const taken = queue.takeExpired(step.takeBefore);
          if (earliest > step.takeBefore) {
            expect(taken).toBeUndefined();
          } else {
            expect(model.get(taken!.key)?.expiresAt).toBe(earliest);
            model.delete(taken!.key);
          }
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it('holds nothing after it was cleared', () => {
    const queue = new ExpiryQueue<Entry>();
    queue.add({ key: 'a', expiresAt: 1, position: 0 });
    queue.clear();
    expect(queue.takeExpired(2)).toBeUndefined();
  });
});

describe('memory idempotency store', () => {
  const RETENTION_MS = 60_000;
  const timeoutMs = 500;
  const fingerprint = 'fingerprint' as Fingerprint;
  let now: number;

  beforeEach(() => {
    now = 1_900_000_000_000;
  });

  describe('maxRecords', () => {
    it('rejects a key that has no record yet, and leaves no trace of it', async () => {
      const store = await filled(3);
      await expect(store.begin(begin('another'))).rejects.toThrow(StoreUnavailableError);
      await expect(store.begin(begin('another'))).rejects.toThrow('"maxRecords" is 3');
      expect(store.size).toBe(3);
      expect(await store.inspect('another' as RecordKey)).toBeUndefined();
    });

    it('continues to serve keys that have a record', async () => {
      const store = await filled(3);
      expect((await store.begin(begin('record 0'))).kind).toBe('owned');
      expect((await store.begin(begin('record 0', 'other'))).kind).toBe('in_progress');
      const extended = { leaseMs: 1_000, recordRetentionMs: RETENTION_MS, timeoutMs };
      expect((await store.extend(lease('record 0'), extended)).kind).toBe('ok');
      expect((await store.complete(lease('record 0'), complete())).kind).toBe('ok');
      expect((await store.begin(begin('record 0', 'other'))).kind).toBe('completed');
      const released = { tombstoneMs: 1_000, timeoutMs };
      expect((await store.release(lease('record 1'), released)).kind).toBe('ok');
      expect((await store.begin(begin('record 1', 'other'))).kind).toBe('acquired');
    });

    it('stores the outcome of an execution even without a record and without room', async () => {
      const store = await filled(3);
      const { kind } = await store.complete(lease('lost'), complete({ whenGone: 'restore' }));
      expect(kind).toBe('restored');
      expect((await store.begin(begin('lost', 'other'))).kind).toBe('completed');
      expect(store.size).toBe(4);
    });

    it('reuses the room of expired records', async () => {
      const store = await filled(3);
      now += RETENTION_MS;
      expect((await store.begin(begin('another'))).kind).toBe('acquired');
      expect(store.size).toBe(1);
    });

    it('does not treat a renewed record as expired', async () => {
      const store = await filled(1);
      now += RETENTION_MS - 1;
      await store.begin(begin('record 0'));
      now += RETENTION_MS - 1;
      await expect(store.begin(begin('another'))).rejects.toThrow(StoreUnavailableError);
      expect((await store.inspect('record 0' as RecordKey))?.retentionLeftMs).toBe(1);
    });

    it('does not matter to a begin that is too late anyway', async () => {
      const store = await filled(1);
      const reply = await store.begin({ ...begin('another'), notAfter: now - 1 });
      expect(reply).toEqual({ kind: 'late', now });
    });
  });

  describe('expired records', () => {
    it('are removed by the commands that follow, a few with each, and live ones stay', async () => {
      const store = await filled(100, { maxRecords: 1_000 });
      now += RETENTION_MS - 1;
      await store.begin(begin('live'));
      now += 1;
      const sizes = [];
      while (store.size > 1) {
        const before = store.size;
        await store.inspect('nothing' as RecordKey);
        sizes.push(before - store.size);
      }
      expect(Math.max(...sizes)).toBeLessThan(20);
      expect((await store.inspect('live' as RecordKey))?.state).toBe('in_progress');
    });

    it('are removed although an older one was renewed', async () => {
      const store = await filled(2);
      now += RETENTION_MS - 1;
      await store.begin(begin('record 0'));
      now += 1;
      await store.inspect('nothing' as RecordKey);
      expect(store.size).toBe(1);
    });

    it('do not pile up while keys come and go', async () => {
      const store = memoryStore({ now: () => now });
      let most = 0;
      for (let index = 0; index < 5_000; index += 1) {
        now += RETENTION_MS / 100;
        await store.begin(begin(`record ${index}`));
        most = Math.max(most, store.size);
      }
      // A hundred are live at any time.
      expect(most).toBeLessThanOrEqual(101);
    });

    it('hand on their fence even where the clock has gone backwards', async () => {
      const store = memoryStore({ now: () => now });
      const fence = now * 1000 + 5_000_000;
      await store.complete({ ...lease('key'), fence }, complete({ whenGone: 'restore' }));
      now += RETENTION_MS;
      const reply = await store.begin(begin('key', 'other'));
      expect(reply).toMatchObject({ kind: 'acquired', fence: Math.max(fence + 1, now * 1000) });
    });

    it('need no timer', async () => {
      const timers = () =>
        process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
      const before = timers();
      const store = await filled(10);
      expect(timers()).toBe(before);
      await store.close();
    });
  });

  describe('the replies', () => {
    it('to commands of one iteration of the event loop come together, after its events', async () => {
      const store = memoryStore();
      const replies: string[] = [];
      for (const key of ['first', 'second', 'third']) {
        void store.begin(begin(key)).then(({ kind }) => replies.push(`${key} ${kind}`));
      }
      expect(store.size).toBe(3);
      await new Promise<void>((resolve) => {
        process.nextTick(resolve);
      });
      expect(replies).toEqual([]);
      await new Promise(setImmediate);
      expect(replies).toEqual(['first acquired', 'second acquired', 'third acquired']);
    });

    it.each(['complete', 'release'] as const)(
      'to %s come before that of a duplicate',
      async (step) => {
        const store = await filled(1);
        const order: string[] = [];
        const note = ({ kind }: { kind: string }) => order.push(kind);
        await store.watch('record 0' as RecordKey, () => {
          void store.begin(begin('record 0', 'other')).then(note);
        });
        const reply =
          step === 'complete'
            ? store.complete(lease('record 0'), complete({ notify: true }))
            : store.release(lease('record 0'), { tombstoneMs: 1_000, notify: true, timeoutMs });
        void reply.then(note);
        await new Promise(setImmediate);
        await new Promise(setImmediate);
        expect(order).toEqual(['ok', step === 'complete' ? 'completed' : 'acquired']);
      },
    );
  });

  describe('the clock', () => {
    it("is the process' own by default", async () => {
      const earliest = Date.now();
      const reply = await memoryStore().begin(begin('key'));
      expect(reply).toMatchObject({ kind: 'acquired', now: expect.any(Number) });
      const reported = 'now' in reply ? reply.now : Number.NaN;
      expect(reported).toBeGreaterThanOrEqual(earliest);
      expect(reported).toBeLessThanOrEqual(Date.now());
    });

    it('may have fractions of a millisecond', async () => {
      const store = memoryStore({ now: () => 1_234.75 });
      const reply = await store.begin(begin('key'));
      expect(reply).toMatchObject({ now: 1_234, fence: 1_234_000 });
    });
  });

  describe('open', () => {
    const { NODE_ENV } = process.env;
    afterEach(() => {
      process.env.NODE_ENV = NODE_ENV;
    });

    it('is refused in production', async () => {
      process.env.NODE_ENV = 'production';
      const store = memoryStore();
      await expect(store.open()).rejects.toMatchObject({
        code: 'idempotency_store_misconfigured',
        message: expect.stringMatching(
          /NODE_ENV is "production".*redisStore\(\) or postgresStore\(\).*memoryStore\(\{ allowInMemoryStorage: true \}\)/,
        ),
      });
      // What did not open needs no close.
      process.env.NODE_ENV = 'test';
      await store.open();
      await store.close();
      await expect(store.inspect('key' as RecordKey)).rejects.toThrow(StoreUnavailableError);
    });

    it('warns in production where it is allowed there', async () => {
      process.env.NODE_ENV = 'production';
      const warnings = await memoryStore({ allowInMemoryStorage: true }).open();
      expect(warnings.map(({ code }) => code)).toEqual(['memory_store_in_production']);
    });

    it('does not warn elsewhere', async () => {
      process.env.NODE_ENV = 'development';
      expect(await memoryStore().open()).toEqual([]);
    });
  });

  describe('close', () => {
    it('drops every record, and every command fails afterwards', async () => {
      const store = await filled(2);
      await store.close();
      await store.close();
      expect(store.size).toBe(0);
      const extend = { leaseMs: 1, recordRetentionMs: 1, timeoutMs };
      const commands = [
        () => store.begin(begin('record 0')),
        () => store.extend(lease('record 0'), extend),
        () => store.complete(lease('record 0'), complete()),
        () => store.release(lease('record 0'), { tombstoneMs: 1, timeoutMs }),
        () => store.inspect('record 0' as RecordKey),
      ];
      for (const command of commands) {
        await expect(command()).rejects.toThrow(StoreUnavailableError);
      }
    });
  });

  describe('options', () => {
    it.each([
      [
        { maxRecords: 0 },
        '"maxRecords" must be an integer from 1 to 9007199254740991, but it is 0',
      ],
      [{ maxRecords: 1.5 }, '"maxRecords" must be an integer'],
      [{ maxRecords: Number.NaN }, '"maxRecords" must be an integer'],
      [{ maxRecords: '10' }, '"maxRecords" must be an integer'],
      [{ now: 5 }, '"now" must be a function, but it is 5'],
      [{ maxRecord: 5 }, '"maxRecord" is not an option of memoryStore'],
    ])('that are invalid stop the start: %j', (options, message) => {
      const create = () => memoryStore(options as MemoryStoreOptions);
      expect(create).toThrow(message);
      expect(create).toThrow(expect.objectContaining({ code: 'idempotency_options_invalid' }));
    });

    it('left undefined have their defaults', () => {
      const store = memoryStore({ maxRecords: undefined, now: undefined });
      expect(store).toBeInstanceOf(MemoryIdempotencyStore);
    });
  });

  async function filled(
    records: number,
    options: MemoryStoreOptions = { maxRecords: records },
  ): Promise<MemoryIdempotencyStore> {
    const store = memoryStore({ now: () => now, ...options });
    for (let index = 0; index < records; index += 1) await store.begin(begin(`record ${index}`));
    return store;
  }

  describe('abandoned()', () => {
    it('yields to other work while it reads many records', async () => {
      const store = await filled(40_000);
      now += RETENTION_MS - 1;
      let rounds = 0;
      let isDone = false;
      const others = () => {
        rounds += 1;
        if (!isDone) setImmediate(others);
      };
      setImmediate(others);
      expect(await store.abandoned({ overMs: 0, limit: 10, timeoutMs })).toEqual({ records: [] });
      isDone = true;
      expect(rounds).toBeGreaterThan(1);
    });

    it('fails once the store is closed', async () => {
      const store = await filled(1);
      await store.close();
      const page = store.abandoned({ overMs: 0, limit: 10, timeoutMs });
      await expect(page).rejects.toThrow(StoreUnavailableError);
    });
  });

  function begin(key: string, token = 'owner'): Begin {
    return {
      recordKey: key as RecordKey,
      token: token as OwnerToken,
      fingerprint,
      leaseMs: RETENTION_MS,
      maxExecutionMs: RETENTION_MS,
      recordRetentionMs: RETENTION_MS,
      notAfter: 0,
      onExpiredLease: 'takeover',
      timeoutMs,
    };
  }

  function lease(key: string): Lease {
    return { recordKey: key as RecordKey, token: 'owner' as OwnerToken, fence: 0 };
  }

  function complete(how: Partial<Complete> = {}): Complete {
    return {
      state: 'completed',
      outcome: { header: '', body: new Uint8Array() },
      retentionMs: RETENTION_MS,
      fingerprint,
      whenGone: 'report',
      timeoutMs,
      ...how,
    };
  }
});
