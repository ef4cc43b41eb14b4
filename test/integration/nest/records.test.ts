import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  IdempotencyRecords,
  IdempotencyService,
  Idempotent,
  staticKeys,
  type AuditEntry,
  type IdempotencyModuleOptions,
  type IdempotencyStore,
  type RecordSheet,
} from 'nestjs-idempotency';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { abandon, LEASE_MS, type AbandonedCall } from '../../support/engine/abandon.js';
import { callingApp, rejection, type CallingApp } from '../../support/nest/calling-app.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { useRedis } from '../../support/redis/use-redis.js';

const OPERATOR = { actor: 'mia', reason: 'the provider has it' };

/** The effects, by key. */
@Injectable()
class Charges {
  readonly made: string[] = [];

  @Idempotent({ operation: 'charges.make', key: (key: string) => key, scope: () => 7 })
  make(key: string) {
    this.made.push(key);
    return Promise.resolve(`charge ${String(this.made.length)}`);
  }
}

let app: CallingApp | undefined;
afterEach(async () => {
  await app?.nest.close();
  app = undefined;
});

async function started(options: Partial<IdempotencyModuleOptions>) {
  app = await callingApp({ providers: [Charges] }, options);
  const { nest, events } = app;
  return {
    events,
    records: nest.get(IdempotencyRecords, { strict: false }),
    service: nest.get(IdempotencyService, { strict: false }),
    charges: nest.get(Charges),
  };
}

describe('IdempotencyRecords', () => {
  let now: number;
  let store: MemoryIdempotencyStore;

  beforeEach(() => {
    now = Date.UTC(2026, 0, 1);
    store = memoryStore({ now: () => now });
  });

  const one = (sheets: readonly RecordSheet[]): RecordSheet => {
    expect(sheets).toHaveLength(1);
    return sheets[0]!;
  };

  /** A call whose process died, and a retry of it that counts its executions. */
  async function withDeadCall(options: Partial<IdempotencyModuleOptions> = {}) {
    const { records, service, events } = await started({ store, ...options });
    const dead = await abandon(store, 'settle');
    now += LEASE_MS;
    let executions = 0;
    const { operation, key } = dead;
    const retry = () =>
      service.run({ operation, key, scope: 'alice' }, () => {
        executions += 1;
        return Promise.resolve('settled');
      });
    const sheetOf = async ({ key: of }: AbandonedCall) =>
      one(await records.find({ key: of, scope: 'alice', operation }));
    return { records, events, dead, sheetOf, retry, executions: () => executions };
  }

  it('finds a key among the operations of the application, by a number or its text', async () => {
    const { records, charges } = await started({ store });
    await charges.make('k-1');
    for (const scope of [7, '7', [7]]) {
      for (const key of ['k-1', '"k-1"']) {
        const sheet = one(await records.find({ key, scope }));
        expect(sheet.record).toMatchObject({ state: 'completed', attempt: 1 });
        expect(sheet.happened).toMatch(/^Attempt 1 began .* and succeeded\./);
        expect(sheet.retry).toContain('gets the stored outcome');
      }
    }
    expect(await records.find({ key: 'k-1', scope: 8 })).toEqual([]);
  });

  it('completes what a dead process left behind, and no retry runs it', async () => {
    const { records, dead, sheetOf, retry, executions } = await withDeadCall();
    const sheet = await sheetOf(dead);
    expect(sheet.happened).toContain('its lease ended 0 ms ago without an outcome');
    expect(sheet.actions.map(({ action }) => action)).toEqual(['release', 'complete']);
    expect(await records.complete(sheet, OPERATOR)).toMatchObject({ kind: 'ok', isAudited: true });
    expect((await sheetOf(dead)).retry).toContain('409 (response-not-kept)');
    expect(await rejection(retry())).toMatchObject({ code: 'idempotency_response_not_kept' });
    expect(executions()).toBe(0);
  });

  it('releases it, and one retry runs it', async () => {
    const { records, dead, sheetOf, retry, executions } = await withDeadCall();
    expect(await records.release(await sheetOf(dead), OPERATOR)).toMatchObject({ kind: 'ok' });
    expect(await retry()).toBe('settled');
    expect(await retry()).toBe('settled');
    expect(executions()).toBe(1);
  });

  it('does nothing to a record that has changed since the operator looked', async () => {
    const { records, dead, sheetOf, retry, executions } = await withDeadCall();
    const seen = await sheetOf(dead);
    await retry();
    for (const act of ['release', 'complete'] as const) {
      expect(await records[act](seen, OPERATOR)).toMatchObject({ kind: 'changed' });
    }
    expect(await retry()).toBe('settled');
    expect(executions()).toBe(1);
  });

  it('does nothing to one whose lease is running, unless it is told to', async () => {
    const { records } = await started({ store });
    const { key, operation } = await abandon(store, 'settle');
    const sheet = one(await records.find({ key, scope: 'alice', operation }));
    expect(sheet.actions.every(({ needsEvenIfRunning }) => needsEvenIfRunning)).toBe(true);
    expect(await records.release(sheet, OPERATOR)).toMatchObject({ kind: 'running' });
    const how = { ...OPERATOR, evenIfRunning: true };
    expect(await records.release(sheet, how)).toMatchObject({ kind: 'ok' });
  });

  it('drops an outcome only once no late copy of its attempt can store it again', async () => {
    const { records, charges } = await started({ store, operator: { settledFor: '30s' } });
    await charges.make('k-1');
    const sheet = one(await records.find({ key: 'k-1', scope: 7 }));
    // The hard deadline of the attempt, by default, and "settledFor".
    now += 300_000 + 29_999;
    expect(await records.reopen(sheet, OPERATOR)).toMatchObject({ kind: 'too_fresh' });
    now += 1;
    expect(await records.reopen(sheet, OPERATOR)).toMatchObject({ kind: 'ok' });
    await charges.make('k-1');
    expect(charges.made).toEqual(['k-1', 'k-1']);
  });

  it('tells the audit before and after, and raises an event, without key and caller', async () => {
    const entries: AuditEntry[] = [];
    const operator = { audit: (entry: AuditEntry) => void entries.push(entry) };
    const { records, dead, sheetOf, events } = await withDeadCall({ operator });
    await records.complete(await sheetOf(dead), OPERATOR);
    const { recordKey } = dead.lease;
    expect(entries).toMatchObject([
      { phase: 'intent', action: 'complete', recordKey, ...OPERATOR },
      { phase: 'result', action: 'complete', recordKey, ...OPERATOR, result: 'ok' },
    ]);
    expect(events.filter(({ type }) => type === 'operator_action')).toEqual([
      {
        type: 'operator_action',
        recordKey,
        action: 'complete',
        actor: 'mia',
        result: 'ok',
        isAudited: true,
      },
    ]);
    expect(JSON.stringify([entries, events])).not.toContain(dead.key);
  });

  it('does nothing if the audit fails before, and says so if it fails after', async () => {
    let failing: AuditEntry['phase'] = 'intent';
    const operator = {
      audit: ({ phase }: AuditEntry) =>
        phase === failing ? Promise.reject(new Error('no disk')) : Promise.resolve(),
    };
    const { records, dead, sheetOf, retry, executions } = await withDeadCall({ operator });
    const sheet = await sheetOf(dead);
    expect(await rejection(records.complete(sheet, OPERATOR))).toMatchObject({
      code: 'idempotency_audit_unavailable',
    });
    expect((await sheetOf(dead)).expected).toEqual(sheet.expected);
    failing = 'result';
    expect(await records.complete(sheet, OPERATOR)).toMatchObject({ kind: 'ok', isAudited: false });
    await rejection(retry());
    expect(executions()).toBe(0);
  });

  it.each([{ actor: '' }, { reason: 'ok' }, { reason: 'x'.repeat(501) }])(
    'refuses an act without who and why: %o',
    async (how) => {
      const { records, dead, sheetOf } = await withDeadCall();
      const sheet = await sheetOf(dead);
      expect(await rejection(records.release(sheet, { ...OPERATOR, ...how }))).toMatchObject({
        code: 'idempotency_options_invalid',
      });
      expect((await sheetOf(dead)).expected).toEqual(sheet.expected);
    },
  );

  it('runs a plan, and skips what changed after it', async () => {
    const { records, dead, retry, executions } = await withDeadCall();
    const others = [await abandon(store, 'settle'), await abandon(store, 'settle')];
    now += LEASE_MS;
    const plan = await records.plan('complete', { lease: 'over' });
    const keys = [dead, ...others].map(({ lease }) => lease.recordKey);
    expect(plan.records.map(({ recordKey }) => recordKey).sort()).toEqual(keys.sort());
    await retry();
    const kinds: string[] = [];
    for await (const { kind } of records.run(plan, { ...OPERATOR, perSecond: 1_000 })) {
      kinds.push(kind);
    }
    expect(kinds.sort()).toEqual(['changed', 'ok', 'ok']);
    expect(await retry()).toBe('settled');
    expect(executions()).toBe(1);
  });

  it('erases nothing without "protectDigests", and says why', async () => {
    const { records } = await started({ store });
    const erasing = records.erase('alice', { ...OPERATOR, mode: 'redact' });
    expect((await rejection(erasing)).message).toContain(
      'without the module option "protectDigests"',
    );
  });
});

const redis = useRedis();
const postgres = usePostgres();

describe.each<[string, () => Promise<IdempotencyStore>]>([
  ['memory', () => Promise.resolve(memoryStore())],
  ['Redis', () => Promise.resolve(redisStore({ url: redis.url }))],
  [
    'PostgreSQL',
    async () => {
      const store = postgresStore({ url: await postgres.newDatabase() });
      await store.migrate();
      return store;
    },
  ],
])('A scope on %s', (_, open) => {
  const secrets = staticKeys({
    current: 'k',
    keys: { k: Buffer.alloc(32), names: Buffer.alloc(32, 1) },
    digestKeys: ['names'],
  });

  it('is exported and erased alone, and a redacted operation does not run again', async () => {
    const service = 'payments';
    const options = { store: await open(), service, secrets, protectDigests: true };
    const { records, service: calls } = await started(options);
    const ran: string[] = [];
    const call = (key: string, scope: string) =>
      calls.run({ operation: 'settle', key, scope }, () => {
        ran.push(key);
        return Promise.resolve(`${key} of ${scope}`);
      });
    await Promise.all(['a-1', 'a-2', 'a-3'].map((key) => call(key, 'alice')));
    await call('b-1', 'bob');
    const exported: RecordSheet[] = [];
    for await (const sheet of records.export('alice')) exported.push(sheet);
    expect(exported.map(({ record }) => record.state)).toEqual(Array(3).fill('completed'));
    const erasing = { ...OPERATOR, mode: 'redact' as const };
    expect(await records.erase('alice', { ...erasing, dryRun: true })).toEqual({
      erased: 3,
      left: 0,
    });
    expect(await call('a-1', 'alice')).toBe('a-1 of alice');
    expect(await records.erase('alice', erasing)).toEqual({ erased: 3, left: 0 });
    expect(await rejection(call('a-1', 'alice'))).toMatchObject({
      code: 'idempotency_response_not_kept',
    });
    expect(await call('b-1', 'bob')).toBe('b-1 of bob');
    const deleting = { ...OPERATOR, mode: 'delete' as const, evenIfRunning: true };
    expect(await records.erase('alice', deleting)).toEqual({ erased: 3, left: 0 });
    for await (const sheet of records.export('alice')) throw new Error(sheet.happened);
    expect(await call('b-1', 'bob')).toBe('b-1 of bob');
    expect(ran.sort()).toEqual(['a-1', 'a-2', 'a-3', 'b-1']);
  });
});
