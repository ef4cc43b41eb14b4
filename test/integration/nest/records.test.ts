import { randomUUID } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Cluster } from 'ioredis';
import {
  IdempotencyRecords,
  IdempotencyService,
  Idempotent,
  staticKeys,
  type ActionOptions,
  type ActOptions,
  type AuditEntry,
  type IdempotencyModuleOptions,
  type IdempotencyStore,
  type GivenOutcome,
  type OperatorAction,
  type RecordSheet,
} from 'nestjs-idempotency';
import { fileBlobs } from 'nestjs-idempotency/blobs/file';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { abandon, LEASE_MS, type AbandonedCall } from '../../support/engine/abandon.js';
import { afterTest } from '../../support/jest/after-test.js';
import { callingApp, rejection } from '../../support/nest/calling-app.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { RedisCluster } from '../../support/redis/redis-cluster.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { useServer } from '../../support/servers/use-server.js';
import { untilSettled } from '../../support/waiting/until.js';

const OPERATOR = { actor: 'mia', reason: 'the provider has it' };

/** Another would be taken by what JavaScript gives. */
type Erase = Parameters<IdempotencyRecords['erase']>[1];

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

async function started(options: Partial<IdempotencyModuleOptions>) {
  const { nest, events } = await callingApp({ providers: [Charges] }, options);
  afterTest(() => nest.close());
  return {
    events,
    records: nest.get(IdempotencyRecords, { strict: false }),
    service: nest.get(IdempotencyService, { strict: false }),
    charges: nest.get(Charges),
  };
}

const one = (sheets: readonly RecordSheet[]): RecordSheet => {
  expect(sheets).toHaveLength(1);
  return sheets[0]!;
};

describe('IdempotencyRecords', () => {
  let now: number;
  let store: MemoryIdempotencyStore;

  beforeEach(() => {
    now = Date.UTC(2026, 0, 1);
    store = memoryStore({ now: () => now });
  });

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

  it.each<[string, Partial<IdempotencyModuleOptions>]>([
    ['as it is', {}],
    ['encrypted', { secrets: staticKeys({ current: 'k', keys: { k: Buffer.alloc(32) } }) }],
  ])('completes it with the value that each retry gets, stored %s', async (how, options) => {
    const audit: AuditEntry[] = [];
    const { records, dead, sheetOf, retry, executions } = await withDeadCall({
      ...options,
      operator: { audit: (entry) => void audit.push(entry) },
    });
    const sheet = await sheetOf(dead);
    const value = { charge: 4711, to: 'the-card-of-alice' };
    const given = { ...OPERATOR, with: { kind: 'value', value }, operation: 'settle' } as const;
    expect(await records.complete(sheet, given)).toMatchObject({ kind: 'ok', isAudited: true });
    expect([await retry(), await retry()]).toEqual([value, value]);
    expect(executions()).toBe(0);
    expect((await sheetOf(dead)).retry).toContain('gets the stored outcome');
    const { outcome } = (await store.inspect(sheet.recordKey))!;
    expect(Buffer.from(outcome!.body).includes('the-card')).toBe(how === 'as it is');
    expect(audit.map(({ phase, given: kind }) => [phase, kind])).toEqual([
      ['intent', 'value'],
      ['result', 'value'],
    ]);
    expect(JSON.stringify(audit)).not.toContain('the-card');
    // The record is no longer what the operator saw.
    expect(await records.complete(sheet, given)).toMatchObject({ kind: 'changed' });
  });

  it.each<[string, Partial<ActOptions>, Partial<IdempotencyModuleOptions>, string]>([
    ['an answer', { with: { kind: 'answer', status: 200 } }, {}, 'no HTTP route'],
    ['what is no JSON', { with: { kind: 'value', value: () => 1 } }, {}, 'with.value'],
    [
      'of no operation',
      { with: { kind: 'value', value: 1 }, operation: undefined },
      {},
      'does not say',
    ],
    [
      'where no responses are kept',
      { with: { kind: 'value', value: 1 } },
      { outcome: { storeBody: false } },
      'keeps no responses',
    ],
    [
      'where each caller has a key',
      { with: { kind: 'value', value: 1 } },
      {
        secrets: {
          ...staticKeys({ current: 'k', keys: { k: Buffer.alloc(32) } }),
          keyFor: () => Promise.resolve(undefined),
        },
      },
      'a key of their caller',
    ],
  ])('refuses %s as an outcome, and does nothing', async (_, wrong, options, says) => {
    const { records } = await started({ store, ...options });
    const dead = await abandon(store, 'charges.make');
    now += LEASE_MS;
    const sheet = one(
      await records.find({ key: dead.key, scope: 'alice', operation: 'charges.make' }),
    );
    const error = await rejection(
      records.complete(sheet, { ...OPERATOR, operation: 'charges.make', ...wrong }),
    );
    expect(error).toMatchObject({ code: 'idempotency_options_invalid' });
    expect(error.message).toContain(says);
    expect((await records.explain(sheet.recordKey))!.expected).toEqual(sheet.expected);
  });

  it.each<[string, unknown, string]>([
    ['a text', 'answer', 'with'],
    ['null', null, 'with'],
    ['another kind', { kind: 'anser', status: 200 }, 'with.kind'],
    ['no kind', { status: 200 }, 'with.kind'],
    ['no value', { kind: 'value' }, 'with.value'],
    ['a misspelt name', { kind: 'answer', status: 200, boddy: 'paid' }, '"boddy"'],
    ['no headers', { kind: 'answer', status: 200, headers: null }, 'with.headers'],
    ['a Headers', { kind: 'answer', status: 200, headers: new Headers() }, 'with.headers'],
    ['a Map of headers', { kind: 'answer', status: 200, headers: new Map() }, 'with.headers'],
    ['a body of 204', { kind: 'answer', status: 204, body: 'paid' }, 'with.body'],
    ['a body of 304', { kind: 'answer', status: 304, body: 'paid' }, 'with.body'],
    ...[
      new Map([['a', 1]]),
      { buffer: new ArrayBuffer(3) },
      new Uint16Array(2),
      Promise.resolve(1),
      { at: NaN },
    ].map((body): [string, unknown, string] => [
      `${Object.prototype.toString.call(body)} as a body`,
      { kind: 'answer', status: 200, body },
      'with.body',
    ]),
  ])('refuses %s in an answer, and does nothing', async (_, wrong, says) => {
    const { records } = await started({ store });
    const dead = await abandon(store, 'elsewhere.pay');
    now += LEASE_MS;
    const [sheet] = await records.find({
      key: dead.key,
      scope: 'alice',
      operation: 'elsewhere.pay',
    });
    const given = { ...OPERATOR, operation: 'elsewhere.pay', with: wrong as GivenOutcome };
    const error = await rejection(records.complete(sheet!, given));
    expect(error).toMatchObject({ code: 'idempotency_options_invalid' });
    expect(error.message).toContain(says);
    expect(error.message).not.toContain('paid');
    expect((await records.explain(sheet!.recordKey))!.expected).toEqual(sheet!.expected);
  });

  it.each<[string, (records: IdempotencyRecords, sheet: RecordSheet) => Promise<unknown>]>([
    ['a filter', (records) => records.list({ state: ['completed'] } as object)],
    ['a filter of a plan', (records) => records.plan('delete', { stats: [] } as object)],
    ['a state', (records) => records.list({ states: ['complete' as never] })],
    ['a list of states', (records) => records.list({ states: 'completed' as never })],
    ['a lease', (records) => records.list({ lease: 'ended' as 'over' })],
    ['no filter', (records) => records.list(null as never)],
    ['a page', (records) => records.list({}, { curser: '0' } as object)],
    ['a cursor', (records) => records.list({}, { cursor: 5 as never })],
    ['a limit', (records) => records.plan('delete', {}, { limit: NaN })],
    ['a query', (records) => records.find({ key: 'k-1', scop: 'alice' } as { key: string })],
    [
      'an act',
      (records, sheet) => records.complete(sheet, { ...OPERATOR, wiht: {} } as ActionOptions),
    ],
    [
      'a flag',
      (records, sheet) => records.delete(sheet, { ...OPERATOR, evenIfRunning: 'false' as never }),
    ],
    ['no options', (records, sheet) => records.delete(sheet, null as never)],
    [
      'a caller to erase',
      (records) => records.erase(undefined as never, { ...OPERATOR, mode: 'delete' }),
    ],
    ['a caller to export', (records) => records.export(undefined as never).next()],
    ...['scope', 'operation', 'key'].map(
      (name): [string, (records: IdempotencyRecords) => Promise<unknown>] => [
        `the ${name} of a plan`,
        (records) => records.plan('delete', { [name]: undefined }),
      ],
    ),
    ['no filter of a plan', (records) => records.plan('delete', undefined as never)],
    ['an operation', (records) => records.find({ key: 'k', scope: 'a', operation: 5 as never })],
    ['no caller', (records) => records.find({ key: 'k', scope: null as never })],
    ['a mode', (records) => records.erase('alice', { ...OPERATOR, mode: 'Delete' as 'delete' })],
    [
      'a dry run',
      (records) => records.erase('alice', { ...OPERATOR, mode: 'delete', dryrun: true } as Erase),
    ],
    [
      'the text of a flag',
      (records) => records.erase('alice', { ...OPERATOR, mode: 'delete', dryRun: '' as never }),
    ],
    [
      'a run',
      (records, sheet) =>
        records
          .run({ action: 'delete', records: [sheet] }, { ...OPERATOR, persecond: 1 } as ActOptions)
          .next(),
    ],
  ])('refuses %s that it does not know, and does nothing', async (_, ask) => {
    const { records, dead, sheetOf } = await withDeadCall();
    const sheet = await sheetOf(dead);
    expect(await rejection(ask(records, sheet))).toMatchObject({
      code: 'idempotency_options_invalid',
    });
    expect((await sheetOf(dead)).expected).toEqual(sheet.expected);
  });

  it('gives an outcome to what it completes alone', async () => {
    const { records, dead, sheetOf } = await withDeadCall();
    const given = { ...OPERATOR, with: { kind: 'value', value: 1 }, operation: 'settle' } as const;
    const error = await rejection(records.act('release', await sheetOf(dead), given));
    expect(error.message).toContain('omitted for "release"');
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

  it('drops it sooner where the record says how long its attempt took', async () => {
    const operator = { settledFor: '30s' } as const;
    const { records, charges } = await started({ store, operator, annotate: true });
    await charges.make('k-1');
    const sheet = one(await records.find({ key: 'k-1', scope: 7 }));
    const { tookMs = NaN } = sheet.annotations;
    now += 30_000 + tookMs - 1;
    expect(await records.delete(sheet, OPERATOR)).toMatchObject({ kind: 'too_fresh' });
    now += 1;
    expect(await records.delete(sheet, OPERATOR)).toMatchObject({ kind: 'ok' });
  });

  it('finds no key of an unknown caller without "annotate.tags", and says why', async () => {
    const { records, charges } = await started({ store, annotate: true });
    await charges.make('k-1');
    const finding = records.find({ key: 'k-1' });
    expect((await rejection(finding)).message).toContain('"annotate.tags"');
    expect((await rejection(records.list({ key: 'k-1' }))).message).toContain('"annotate.tags"');
    expect(await records.find({ key: 'k-1', scope: [] })).toEqual([]);
    const query = { key: 'k-1', scope: undefined } as object as { key: string };
    expect((await rejection(records.find(query))).message).toContain('"scope"');
  });

  it('lists no records by their operation without "annotate", and says why', async () => {
    const { records } = await started({ store });
    const listing = records.list({ operation: 'charges.make' });
    expect((await rejection(listing)).message).toContain('"annotate"');
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

  it('tells the audit of an act that the state does not allow, too', async () => {
    const entries: AuditEntry[] = [];
    const operator = { audit: (entry: AuditEntry) => void entries.push(entry) };
    const { records, dead, sheetOf, events } = await withDeadCall({ operator });
    const sheet = await sheetOf(dead);
    const refused = await records.act('redact', sheet, OPERATOR);
    expect(refused).toMatchObject({ kind: 'not_applicable', isAudited: true });
    const results = entries.map(({ phase, result }) => `${phase} ${String(result)}`);
    expect(results).toEqual(['intent undefined', 'result not_applicable']);
    expect(events).toContainEqual(expect.objectContaining({ result: 'not_applicable' }));
    expect((await sheetOf(dead)).expected).toEqual(sheet.expected);
  });

  it.each<[OperatorAction, Partial<ActOptions>, string]>([
    ['retain', {}, 'retention'],
    ['redact', { retention: '1d' }, 'retention'],
    ['release', { retention: '1d' }, 'retention'],
    ['complete', { nothingHappened: true }, 'nothingHappened'],
  ])('refuses "%s" with %j before the audit', async (action, how, option) => {
    const entries: AuditEntry[] = [];
    const operator = { audit: (entry: AuditEntry) => void entries.push(entry) };
    const { records, dead, sheetOf } = await withDeadCall({ operator });
    const refused = await rejection(
      records.act(action, await sheetOf(dead), { ...OPERATOR, ...how }),
    );
    expect(refused).toMatchObject({ code: 'idempotency_options_invalid' });
    expect(refused.message).toContain(`"${option}"`);
    expect(entries).toEqual([]);
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
const cluster = useServer(() => RedisCluster.start({ replicas: 0 }));

const SECRETS = staticKeys({
  current: 'k',
  keys: { k: Buffer.alloc(32), names: Buffer.alloc(32, 1) },
  digestKeys: ['names'],
});
/** A number: its text finds its records, too. */
const OTHERS = [7, ...Array.from({ length: 20 }, (_, at) => `caller-${String(at)}`)];

const STORES: [string, () => Promise<IdempotencyStore>][] = [
  ['memory', () => Promise.resolve(memoryStore())],
  ['Redis', () => Promise.resolve(redisStore({ url: redis.url }))],
  [
    'Redis Cluster',
    () => {
      const client = new Cluster(cluster.addresses);
      afterTest(() => client.disconnect());
      return Promise.resolve(redisStore({ client }));
    },
  ],
  [
    'PostgreSQL',
    async () => {
      const store = postgresStore({ url: await postgres.newDatabase() });
      await store.migrate();
      return store;
    },
  ],
];

describe.each(STORES)('An annotated record on %s', (_, open) => {
  const [OLD, NEW] = ['o'.repeat(32), 'n'.repeat(32)];

  async function annotated() {
    const [store, service] = [await open(), randomUUID()];
    const app = (secret: string | string[], holder = 'live:2') =>
      started({ store, service, annotate: { holder, tags: { secret } } });
    const all = async (records: IdempotencyRecords, filter: Parameters<typeof records.list>[0]) => {
      const found: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await records.list(filter, { cursor });
        found.push(...page.records.map(({ recordKey }) => recordKey));
        cursor = page.cursor;
      } while (cursor !== undefined);
      return [...new Set(found)];
    };
    return { store, service, app, all };
  }

  it('says which attempts it had, and is found by its operation and by its key alone', async () => {
    const { store, service, app, all } = await annotated();
    const note = '~hdead:1;~osettle%2fit~<';
    const dead = await abandon(store, 'settle/it', 'k-1', 1, { service, note });
    const { recordKey } = dead.lease;
    const { records, service: calls } = await app(OLD);
    await untilSettled(async () => {
      const { record } = (await records.explain(recordKey))!;
      return record.leaseLeftMs !== undefined && record.leaseLeftMs <= 0;
    });
    const call = (run: () => Promise<string>) =>
      calls.run({ operation: 'settle/it', key: 'k-1', scope: 'alice' }, run);
    await rejection(call(() => Promise.reject(new Error('no connection'))));
    expect(await call(() => Promise.resolve('settled'))).toBe('settled');
    const others = ['k-2', 'k-1 '].map((key) =>
      calls.run({ operation: 'settle', key, scope: 'alice' }, () => Promise.resolve('other')),
    );
    await Promise.all(others);

    const sheet = one(await records.find({ key: 'k-1' }));
    expect(sheet.recordKey).toBe(recordKey);
    expect(sheet.annotations).toEqual({
      operation: 'settle/it',
      holder: 'live:2',
      tookMs: expect.any(Number),
      earlier: [
        {
          holder: 'live:2',
          tookMs: expect.any(Number),
          end: 'released',
          beganAt: expect.any(Number),
        },
        { holder: 'dead:1', end: 'expired', beganAt: Math.floor(dead.lease.fence / 1_000) },
      ],
    });
    expect(sheet.happened).toMatch(
      /^Attempt 3 began .* ago in live:2 and succeeded after .*\. Before it, attempt 2 began .* in live:2, and the key was released after .*\. Before it, attempt 1 began .* in dead:1, and its lease ended without an outcome\.$/,
    );
    expect(await all(records, { operation: 'settle/it' })).toEqual([recordKey]);
    expect(await all(records, { operation: 'settle' })).toHaveLength(2);
    expect(await all(records, { operation: 'settl' })).toEqual([]);
    expect(await all(records, { operation: 'settle', key: 'k-1' })).toEqual([]);
    expect(await all(records, { operation: 'settle', key: 'k-2' })).toHaveLength(1);
    expect(sheet.record.note).not.toMatch(/k-1|alice/);
  });

  it('is not found for a caller who was forgotten', async () => {
    const { app } = await annotated();
    const { records, service: calls } = await app(OLD);
    await calls.run({ operation: 'settle', key: 'k-1', scope: 'alice' }, () => Promise.resolve(1));
    const query = { key: 'k-1', scope: undefined } as object as { key: string };
    expect((await rejection(records.find(query))).message).toContain('"scope"');
    expect(await records.find({ key: 'k-1', scope: 'bob' })).toEqual([]);
  });

  it('is found by its key through a rotation of the secret, and by no other secret', async () => {
    const { app } = await annotated();
    const first = await app(OLD);
    const call = (calls: IdempotencyService, key: string) =>
      calls.run({ operation: 'settle', key, scope: 'alice' }, () => Promise.resolve('settled'));
    await call(first.service, 'k-1');
    const second = await app([NEW, OLD]);
    await call(second.service, 'k-2');
    expect(await second.records.find({ key: 'k-1' })).toHaveLength(1);
    expect(await second.records.find({ key: 'k-2' })).toHaveLength(1);
    expect(await first.records.find({ key: 'k-2' })).toEqual([]);
  });

  it('of 64 KB is stored as one that is not, and says how long it took', async () => {
    const { app } = await annotated();
    const { records, service: calls } = await app(OLD);
    const large = 'x'.repeat(65_536);
    const call = () =>
      calls.run({ operation: 'large', key: 'k-1', scope: 'alice' }, () => Promise.resolve(large));
    expect(await call()).toBe(large);
    expect(await call()).toBe(large);
    const { annotations } = one(
      await records.find({ key: 'k-1', scope: 'alice', operation: 'large' }),
    );
    expect(annotations).toMatchObject({ operation: 'large', tookMs: expect.any(Number) });
  });
});

describe.each(STORES)('A scope on %s', (_, open) => {
  const directory = mkdtempSync(join(tmpdir(), 'idempotency-erase-'));
  const blobs = fileBlobs({ directory });
  afterAll(() => {
    rmSync(directory, { recursive: true });
  });
  /** Of each test: the server has the records of the others. */
  let service: string;
  beforeEach(() => {
    service = randomUUID();
  });
  const bodies = () =>
    readdirSync(directory, { recursive: true, withFileTypes: true }).filter((each) => each.isFile())
      .length;

  /** One caller's operations among those of others, all with a body in the blob store. */
  async function among(options: Partial<IdempotencyModuleOptions> = {}) {
    const { records, service: calls } = await started({
      store: await open(),
      service,
      secrets: SECRETS,
      protectDigests: true,
      blobs,
      outcome: { offload: { aboveBytes: 0 }, encryption: true },
      ...options,
    });
    const ran: string[] = [];
    const call = (key: string, scope: string | number) =>
      calls.run({ operation: 'settle', key, scope }, () => {
        ran.push(`${key} of ${String(scope)}`);
        return Promise.resolve(`${key} of ${String(scope)}`);
      });
    await Promise.all(['k-1', 'k-2', 'k-3'].map((key) => call(key, 'alice')));
    await Promise.all(OTHERS.map((scope) => call('k-1', scope)));
    const othersReplay = async () => {
      for (const scope of OTHERS) expect(await call('k-1', scope)).toBe(`k-1 of ${String(scope)}`);
    };
    return { records, call, calls, ran, othersReplay };
  }
  const NONE = { erased: 0, inProgress: 0, left: 0, bodiesLeft: 0 };

  it('is exported and erased alone, with its bodies, and a redacted operation does not run again', async () => {
    const before = bodies();
    const { records, call, ran, othersReplay } = await among();
    const states: string[] = [];
    for await (const { record } of records.export('alice')) states.push(record.state);
    expect(states).toEqual(['completed', 'completed', 'completed']);
    for await (const { record } of records.export('7')) states.push(record.state);
    expect(states).toHaveLength(4);
    const erasing = { ...OPERATOR, mode: 'redact' as const };
    expect(await records.erase('alice', { ...erasing, dryRun: true })).toEqual({
      ...NONE,
      erased: 3,
    });
    expect(bodies()).toBe(before + 3 + OTHERS.length);
    expect(await call('k-1', 'alice')).toBe('k-1 of alice');
    expect(await records.erase('alice', erasing)).toEqual({ ...NONE, erased: 3 });
    expect(bodies()).toBe(before + OTHERS.length);
    expect(await rejection(call('k-1', 'alice'))).toMatchObject({
      code: 'idempotency_response_not_kept',
    });
    await othersReplay();
    const deleting = { ...OPERATOR, mode: 'delete' as const, evenIfRunning: true };
    expect(await records.erase('alice', deleting)).toEqual({ ...NONE, erased: 3 });
    for await (const sheet of records.export('alice')) throw new Error(sheet.happened);
    await othersReplay();
    expect(ran).toHaveLength(3 + OTHERS.length);
  });

  it('is erased but for attempts that run, and outcomes of just now', async () => {
    const { records, call, calls, ran } = await among();
    let end: (value: string) => void = () => undefined;
    const running = new Promise<string>((resolve) => {
      end = resolve;
    });
    const live = calls.run({ operation: 'settle', key: 'k-live', scope: 'alice' }, () => running);
    await untilSettled(async () => {
      for await (const { record } of records.export('alice')) {
        if (record.state === 'in_progress') return true;
      }
      return false;
    });
    const erased = await records.erase('alice', { ...OPERATOR, mode: 'delete' });
    expect(erased).toEqual({ ...NONE, inProgress: 1, left: 3 });
    end('done');
    expect(await live).toBe('done');
    expect(await call('k-1', 'alice')).toBe('k-1 of alice');
    expect(ran).toHaveLength(3 + OTHERS.length);
  });

  it('is erased by a process that cannot delete its bodies, which says so', async () => {
    const store = await open();
    const { records } = await among({ store });
    const tool = await callingApp({}, { store, service, secrets: SECRETS, protectDigests: true });
    const others = tool.nest.get(IdempotencyRecords, { strict: false });
    const before = bodies();
    const erasing = { ...OPERATOR, mode: 'redact' as const };
    const erased = await others.erase('alice', erasing);
    await tool.nest.close();
    expect(erased).toEqual({ ...NONE, erased: 3, bodiesLeft: 3 });
    expect(bodies()).toBe(before);
    expect(await records.erase('alice', erasing)).toEqual({ ...NONE, erased: 3 });
  });
});
