import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { staticKeys, type IdempotencyStore } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { protectedBy, received } from '../../support/engine/digest-protection.js';
import { outcomeAsText, success, Worker } from '../../support/engine/worker.js';
import {
  contextOf,
  nodeClock,
  type OperationRequest,
  type ProtocolOptions,
} from '../../support/internals/core.js';
import { OutcomeTransform } from '../../support/internals/payload.js';
import { sharedDatabase } from '../../support/postgres/use-postgres.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { lostReply, misconfigured, unavailable } from '../../support/stores/faulty-store.js';
import { until } from '../../support/waiting/until.js';

type Order = readonly (number | 'none')[];

const NONE: Order = ['none'];
const READS: Order = ['none', 1];
const WRITES: Order = [1, 'none'];
const ORDERS = [READS, WRITES] as const;

const redis = useRedis();
const STORES: readonly (readonly [string, () => Promise<IdempotencyStore>])[] = [
  ['in memory', () => Promise.resolve(memoryStore())],
  ['on Redis', () => Promise.resolve(redisStore({ url: redis.url }))],
  [
    'on PostgreSQL',
    async () => {
      const url = await sharedDatabase();
      await migrate({ url });
      return postgresStore({ url });
    },
  ],
];

describe.each(STORES)('While digest keys rotate %s,', (_, newStore) => {
  let store: IdempotencyStore;
  beforeAll(async () => {
    store = await newStore();
    await store.open();
  });
  afterAll(() => store.close());

  const SHORT: ProtocolOptions = { lease: { duration: '100ms' } };

  /** A process, and its request for an operation of this key. */
  function processWith(order: Order, key: string, given: Parameters<typeof received>[0] = {}) {
    const worker = new Worker(store, {}, nodeClock, undefined, protectedBy(order));
    const request = worker.engine.requestOf(received({ key, ...given }));
    const steps = () => worker.store.sent.map(({ step }) => step);
    return { worker, request, steps, begin: () => worker.begin(request) };
  }

  async function completed(order: Order, key: string): Promise<OperationRequest> {
    const { worker, request } = processWith(order, key);
    await (await worker.run(request)).complete(success('A'));
    return request;
  }

  it.each(ORDERS)(
    'a first request costs one look-up more, and nothing else: %j',
    async (...order) => {
      const key = randomUUID();
      const before = processWith(NONE, randomUUID());
      await (await before.worker.run(before.request)).complete(success('A'));
      expect(before.steps()).toEqual(['begin', 'complete']);
      const { worker, request, steps } = processWith(order, key);
      await (await worker.run(request)).complete(success('A'));
      expect(steps()).toEqual(['begin', 'inspect', 'complete']);
      // Once there is one key, it costs what it did.
      const after = processWith([1], randomUUID());
      await (await after.worker.run(after.request)).complete(success('A'));
      expect(after.steps()).toEqual(['begin', 'complete']);
    },
  );

  it('a replay costs none under the name for new records, and three commands more under another', async () => {
    const key = randomUUID();
    await completed(NONE, key);
    const reader = processWith(READS, key);
    expect(outcomeAsText(await reader.begin())).toMatchObject({ kind: 'replay', outcome: 'A' });
    expect(reader.steps()).toEqual(['begin']);
    const writer = processWith(WRITES, key);
    expect(outcomeAsText(await writer.begin())).toMatchObject({ kind: 'replay', outcome: 'A' });
    expect(writer.steps()).toEqual(['begin', 'inspect', 'release', 'begin']);
    // What it began is gone soon, and was never seen as an attempt.
    expect(writer.worker.reported).toEqual(['replayed']);
    const released = await store.inspect(writer.request.recordKey, { timeoutMs: 1_000 });
    expect(released?.state).toBe('released');
    expect(released?.retentionLeftMs).toBeLessThanOrEqual(60_000);
  });

  it.each(ORDERS)(
    'other content is a mismatch, by whichever name it was stored: %j',
    async (...order) => {
      for (const stored of [NONE, [1]]) {
        const key = randomUUID();
        await completed(stored, key);
        const { begin } = processWith(order, key, { content: 'other' });
        expect(await begin()).toMatchObject({ kind: 'reject', reason: 'mismatch' });
        expect(await processWith(order, key).begin()).toMatchObject({ kind: 'replay' });
      }
    },
  );

  it('an attempt in progress under the other name is not run beside', async () => {
    const key = randomUUID();
    const first = processWith(NONE, key);
    const attempt = await first.worker.run(first.request);
    const { begin, worker } = processWith(WRITES, key);
    expect(await begin()).toMatchObject({ kind: 'reject', reason: 'in_progress' });
    expect(worker.reported).toEqual(['rejected']);
    expect(await processWith(WRITES, key, { content: 'other' }).begin()).toMatchObject({
      reason: 'mismatch',
    });
    await attempt.complete(success('A'));
    expect(outcomeAsText(await begin())).toMatchObject({ kind: 'replay', outcome: 'A' });
  });

  it('an attempt that died under the other name is taken over there', async () => {
    const key = randomUUID();
    const dead = processWith(NONE, key, { options: SHORT });
    // Its process sends no heartbeat.
    await store.begin({ ...beginOf(dead.request), leaseMs: 100 });
    const { worker, request, begin } = processWith(WRITES, key, { options: SHORT });
    await until(async () => (await leaseLeft(dead.request)) < 0);
    const attempt = await worker.run(request);
    expect([attempt.isTakeover, attempt.number]).toEqual([true, 2]);
    await attempt.complete(success('B'));
    expect((await store.inspect(dead.request.recordKey, TIMEOUT))?.state).toBe('completed');
    expect(outcomeAsText(await begin())).toMatchObject({ kind: 'replay', outcome: 'B' });
  });

  it('an attempt that died under the other name is not taken over where that is denied', async () => {
    const key = randomUUID();
    const dead = processWith(NONE, key);
    await store.begin({ ...beginOf(dead.request), leaseMs: 100 });
    await until(async () => (await leaseLeft(dead.request)) < 0);
    const { begin } = processWith(WRITES, key, { options: { lease: { onTakeover: 'reject' } } });
    expect(await begin()).toMatchObject({ reason: 'outcome_unknown' });
  });

  it('a released attempt under the other name leaves its counters: whether it was a takeover, and how many there were', async () => {
    const key = randomUUID();
    const dead = processWith(NONE, key);
    await store.begin({ ...beginOf(dead.request), leaseMs: 100 });
    await until(async () => (await leaseLeft(dead.request)) < 0);
    await (await processWith(NONE, key).worker.run(dead.request)).release();
    const { worker, request } = processWith(WRITES, key);
    const attempt = await worker.run(request);
    expect([attempt.number, attempt.isTakeover]).toEqual([3, true]);
    await attempt.complete(success('C'));
    expect((await store.inspect(request.recordKey, TIMEOUT))?.state).toBe('completed');
  });

  it('a duplicate waits for an attempt under the other name', async () => {
    const key = randomUUID();
    const options: ProtocolOptions = { duplicates: 'wait' };
    const first = processWith(NONE, key, { options });
    const attempt = await first.worker.run(first.request);
    const duplicates = Array.from({ length: 4 }, () => processWith(WRITES, key, { options }));
    for (const { worker } of duplicates) worker.store.pushes = true;
    const waiting = duplicates.map(({ begin }) => begin());
    await until(() => duplicates.every(({ worker }) => [...worker.engine.waiting()].length === 1));
    await attempt.complete(success('A'));
    for (const decision of await Promise.all(waiting)) {
      expect(outcomeAsText(decision)).toMatchObject({ kind: 'replay', outcome: 'A' });
    }
  });

  it('a duplicate that waits runs when that attempt is released, and the others get its outcome', async () => {
    const key = randomUUID();
    const options: ProtocolOptions = { duplicates: 'wait' };
    const first = processWith(NONE, key, { options });
    const attempt = await first.worker.run(first.request);
    const duplicates = [WRITES, WRITES, READS, READS].map((order) =>
      processWith(order, key, { options }),
    );
    let effects = 0;
    const served = duplicates.map(async ({ begin }) => {
      const decision = await begin();
      if (decision.kind !== 'run') return outcomeAsText(decision);
      effects += 1;
      await decision.attempt.complete(success('B'));
      return { kind: 'replay', outcome: 'B' };
    });
    await until(() => duplicates.every(({ worker }) => [...worker.engine.waiting()].length === 1));
    await attempt.release();
    for (const result of await Promise.all(served)) {
      expect(result).toMatchObject({ kind: 'replay', outcome: 'B' });
    }
    expect(effects).toBe(1);
  });

  it('duplicates that begin at once under both names, and step back, do not keep each other from running', async () => {
    const options: ProtocolOptions = { duplicates: { mode: 'wait', timeout: '4s' } };
    const rounds = Array.from({ length: 8 }, async () => {
      const key = randomUUID();
      const duplicates = [WRITES, READS].map((order) => processWith(order, key, { options }));
      const served = duplicates.map(async ({ worker, begin }) => {
        worker.store.pushes = true;
        const decision = await begin();
        if (decision.kind === 'run') await decision.attempt.complete(success('A'));
        return decision.kind;
      });
      expect((await Promise.all(served)).sort()).toEqual(['replay', 'run']);
      // Each step back is told to both who wait: if that woke them, neither would pause.
      expect(duplicates.flatMap(({ steps }) => steps()).length).toBeLessThan(100);
    });
    await Promise.all(rounds);
  });

  it('a look-up that fails is a 503, and leaves nothing in the way', async () => {
    for (const fault of [unavailable, lostReply, misconfigured]) {
      const key = randomUUID();
      const { worker, begin, request } = processWith(WRITES, key);
      worker.store.next('inspect', fault);
      expect(await begin()).toMatchObject({ reason: 'store_unavailable' });
      await until(
        async () => (await store.inspect(request.recordKey, TIMEOUT))?.state === 'released',
      );
      await (await worker.run(request)).complete(success('A'));
    }
  });

  it("a look-up that fails runs without protection only with 'execute', and stores its outcome", async () => {
    const key = randomUUID();
    const options: ProtocolOptions = { storeErrors: { whenUnavailable: 'execute' } };
    const { worker, request } = processWith(WRITES, key, { options });
    worker.store.next('inspect', unavailable);
    const attempt = await worker.run(request);
    expect(attempt.isProtected).toBe(false);
    await attempt.complete(success('A'));
    await until(
      async () => (await store.inspect(request.recordKey, TIMEOUT))?.state === 'completed',
    );
    const other = processWith(WRITES, randomUUID(), { options });
    other.worker.store.next('inspect', misconfigured);
    expect(await other.begin()).toMatchObject({ reason: 'store_unavailable' });
  });

  it('a mismatch that cannot be looked up elsewhere is a 503', async () => {
    const key = randomUUID();
    await completed([1], key);
    const options: ProtocolOptions = { storeErrors: { whenUnavailable: 'execute' } };
    const { worker, begin } = processWith(WRITES, key, { content: 'other', options });
    worker.store.next('inspect', unavailable);
    expect(await begin()).toMatchObject({ reason: 'store_unavailable' });
  });

  it('a downstream key stays the same, so that no retry pays twice elsewhere', async () => {
    const key = randomUUID();
    const keys = new Set<string>();
    for (const order of [NONE, READS, WRITES, [1], [2, 1], [2]]) {
      const { worker, request } = processWith(order, key);
      const attempt = await worker.run(request);
      keys.add(contextOf(request, attempt).downstreamKey('stripe/charge'));
      await attempt.release();
      for (const { recordKey } of request.otherNames ?? []) expect(recordKey).toHaveLength(43);
    }
    const unprotected = new Worker(store);
    const request = unprotected.engine.requestOf(received({ key }));
    keys.add(contextOf(request, {} as never).downstreamKey('stripe/charge'));
    expect(keys.size).toBe(1);
  });

  it('the reconciler finds who an abandoned record is of, by its encrypted origin alone', async () => {
    const secrets = staticKeys({ current: 'k1', keys: { k1: randomBytes(32) } });
    const outcomes = new OutcomeTransform(secrets, nodeClock);
    await outcomes.open();
    const options: ProtocolOptions = { lease: { onTakeover: () => 'run' } };
    for (const [order, names] of [
      [[1], 0],
      [WRITES, 1],
      [READS, 1],
    ] as const) {
      for (const keyOperation of ['pay', undefined]) {
        const key = randomUUID();
        const worker = new Worker(store, {}, nodeClock, outcomes, protectedBy(order));
        const request = worker.engine.requestOf(received({ key, keyOperation, options }));
        await worker.run(request);
        const { recordKey, fingerprint } = request;
        const { origin = '' } = (await store.inspect(recordKey, TIMEOUT)) ?? {};
        expect(Buffer.from(origin, 'base64url').toString('latin1')).not.toContain('alice');
        const found = await worker.engine.originOf({ recordKey, fingerprint, origin });
        const { plainKey } = request;
        const identity = { operation: 'pay', scope: ['alice'], key };
        expect(found).toMatchObject({ ...identity, recordKey, fingerprint, plainKey });
        expect(found?.otherNames?.length ?? 0).toBe(names);
        // Not as the record of another name, nor by a process that lacks its digest key.
        const other = { recordKey: newName(), fingerprint, origin };
        expect(await worker.engine.originOf(other)).toBeUndefined();
        const stranger = new Worker(store, {}, nodeClock, outcomes, protectedBy([7]));
        expect(await stranger.engine.originOf({ recordKey, fingerprint, origin })).toBeUndefined();
      }
    }
  });

  async function leaseLeft({ recordKey }: OperationRequest): Promise<number> {
    return (await store.inspect(recordKey, TIMEOUT))?.leaseLeftMs ?? 0;
  }
});

const TIMEOUT = { timeoutMs: 5_000 };

const newName = () => randomBytes(32).toString('base64url') as OperationRequest['recordKey'];

function beginOf({ recordKey, fingerprint }: OperationRequest) {
  return {
    recordKey,
    fingerprint,
    token: randomBytes(16).toString('base64url') as never,
    leaseMs: 1_000,
    maxExecutionMs: 60_000,
    recordRetentionMs: 120_000,
    notAfter: 0,
    onExpiredLease: 'takeover' as const,
    timeoutMs: 5_000,
  };
}
