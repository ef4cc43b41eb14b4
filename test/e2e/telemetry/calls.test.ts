import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { SpanStatusCode, trace } from '@opentelemetry/api';
import type { ReadableSpan } from '@opentelemetry/sdk-trace-node';
import {
  IdempotencyReconciler,
  IdempotencyService,
  Idempotent,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { openTelemetry } from 'nestjs-idempotency/opentelemetry';
import { callingApp, type CallingApp } from '../../support/nest/calling-app.js';
import { abandon, LEASE_MS } from '../../support/engine/abandon.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { idOf, linksOf, TestSdk, written } from '../../support/telemetry/test-sdk.js';
import { Gate } from '../../support/waiting/gate.js';
import { Tally } from '../../support/waiting/tally.js';

@Injectable()
class Mails {
  @Idempotent({ operation: 'mails.send', key: (id: string) => id })
  async send(id: string) {
    return Promise.resolve(`sent ${id.length}`);
  }
}

let sdk: TestSdk;
let app: CallingApp | undefined;
let now = Date.UTC(2026, 0, 1);
beforeEach(() => {
  sdk = TestSdk.start();
});
afterEach(async () => {
  await app?.nest.close();
  app = undefined;
  await sdk.stop();
});

const unreadable = () => {
  throw new Error('unreadable');
};

let keys = 0;
const newKey = () => `key-${(keys += 1)}`;

async function start(options: Partial<IdempotencyModuleOptions> = {}) {
  const store = new FaultyStore(memoryStore({ now: () => now }));
  const telemetry = openTelemetry();
  app = await callingApp({ providers: [Mails] }, { store, telemetry, ...options });
  const { nest } = app;
  const service = nest.get(IdempotencyService, { strict: false });
  return {
    store,
    mails: nest.get(Mails, { strict: false }),
    reconciler: nest.get(IdempotencyReconciler, { strict: false }),
    pay: (key: string, operation: () => unknown = () => 'paid', more: object = {}) =>
      service.run({ operation: 'pay', key, scope: 'alice', ...more }, operation),
  };
}

/** Runs `work` in a span, as a worker for jobs might have one. */
const inJob = <Result>(work: () => Promise<Result>): Promise<Result> =>
  trace.getTracer('test').startActiveSpan('job', async (span) => {
    try {
      return await work();
    } finally {
      span.end();
    }
  });

const named = (name: string) => sdk.spans.filter((span) => span.name === name);
const own = () => named('idempotent pay');

describe('a call', () => {
  it('has a span of its own within the active one, and its replay links to it', async () => {
    const { pay } = await start();
    const key = newKey();
    await inJob(async () => {
      await pay(key);
      await pay(key);
    });
    const [first, replay] = own() as [ReadableSpan, ReadableSpan];
    const [job] = named('job');
    expect([first, replay].map(({ parentSpanContext }) => parentSpanContext?.spanId)).toEqual([
      idOf(job),
      idOf(job),
    ]);
    expect(written(first)).toMatchObject({
      'idempotency.operation.name': 'pay',
      'idempotency.transport': 'call',
      'idempotency.result': 'executed',
      'idempotency.attempt.end': 'completed',
    });
    expect(linksOf(replay)).toEqual([[idOf(first), 'first_execution']]);
    expect(written(job!)).toEqual({});
    expect(sdk.spans).toHaveLength(3);
  });

  it('without an active span has one of its own, and what the operation does is within it', async () => {
    const { pay, mails } = await start();
    const key = newKey();
    await pay(key, () => mails.send(key));
    const [outer] = own();
    const [inner] = named('idempotent mails.send');
    expect(inner!.parentSpanContext?.spanId).toBe(idOf(outer));
    expect(written(inner!)).toMatchObject({ 'idempotency.operation.name': 'mails.send' });
    expect(written(outer!)).toMatchObject({ 'idempotency.operation.name': 'pay' });
  });

  it('whose operation throws has an error without a message; its replay has none', async () => {
    const { pay } = await start();
    const key = newKey();
    const fail = () => Promise.reject(new RangeError('secret'));
    const more = { outcome: { keep: () => true } };
    await expect(pay(key, fail, more)).rejects.toThrow('secret');
    await expect(pay(key, fail, more)).rejects.toMatchObject({
      code: 'idempotency_failure_replayed',
    });
    const [first, replay] = own() as [ReadableSpan, ReadableSpan];
    expect(first.status).toEqual({ code: SpanStatusCode.ERROR });
    expect(written(first)).toMatchObject({
      'error.type': 'RangeError',
      'idempotency.attempt.end': 'failed',
    });
    expect(first.events).toEqual([]);
    expect(replay.status).toEqual({ code: SpanStatusCode.UNSET });
    expect(written(replay)).not.toHaveProperty('error.type');
  });

  it.each<[string, Error, string]>([
    [
      'reads like a message',
      Object.assign(new TypeError(), { code: 'card 4242 refused' }),
      'TypeError',
    ],
    [
      'is longer than a code',
      Object.assign(new TypeError(), { code: 'x'.repeat(65) }),
      'TypeError',
    ],
    ['cannot be read', Object.defineProperty(new Error(), 'code', { get: unreadable }), '_OTHER'],
  ])('whose error has a code that %s ends without it', async (_, error, errorType) => {
    const { pay } = await start();
    await expect(pay(newKey(), () => Promise.reject(error))).rejects.toBe(error);
    expect(written(own()[0]!)).toMatchObject({ 'error.type': errorType });
  });

  it('without a key has a span of its own, too', async () => {
    const { mails } = await start();
    await inJob(async () => {
      await expect(mails.send('')).rejects.toMatchObject({ code: 'idempotency_key_missing' });
    });
    const [invalid] = named('idempotent mails.send');
    expect(written(invalid!)).toEqual({
      'idempotency.operation.name': 'mails.send',
      'idempotency.transport': 'call',
      'idempotency.result': 'key_missing',
    });
    expect(invalid!.status).toEqual({ code: SpanStatusCode.UNSET });
    expect(written(named('job')[0]!)).toEqual({});
  });

  it.each([
    ['the outcome', 'respond'],
    ['an error', 'error'],
  ] as const)(
    'that is saved after its span has ended with %s has a span for the save',
    async (_, whenNotSaved) => {
      const { pay, store } = await start({ storeErrors: { saveTimeoutMs: 50, whenNotSaved } });
      store.always(unavailable, 'complete');
      const saved = pay(newKey());
      if (whenNotSaved === 'respond') await saved;
      else await expect(saved).rejects.toMatchObject({ code: 'idempotency_store_unavailable' });
      const [first] = own() as [ReadableSpan];
      expect(written(first)).not.toHaveProperty('idempotency.attempt.end');
      store.heal();
      await sdk.ended(2);
      const [save] = named('idempotency save');
      expect(written(save!)).toEqual({
        'idempotency.operation.name': 'pay',
        'idempotency.transport': 'call',
        'idempotency.record.key': written(first)['idempotency.record.key'],
        'idempotency.attempt.number': 1,
        'idempotency.attempt.end': 'completed',
      });
      expect(linksOf(save!)).toEqual([[idOf(first), 'own_attempt']]);
      expect(save!.spanContext().traceId).toBe(first.spanContext().traceId);
      expect(first.status.code).toBe(
        whenNotSaved === 'respond' ? SpanStatusCode.UNSET : SpanStatusCode.ERROR,
      );
    },
  );

  it('that is not protected has its own save, and two of one key are not confused', async () => {
    const { pay, store } = await start({
      storeErrors: { whenUnavailable: 'execute' },
      lease: { durationMs: 300_000, maxExecutionMs: 600_000 },
    });
    store.always(unavailable, 'begin', 'complete');
    const [one, both] = [newKey(), newKey()];
    await pay(one);
    const gate = new Gate();
    const started = new Tally();
    gate.close();
    const operation = async () => {
      started.add();
      await gate.pass();
    };
    const running = [pay(both, operation), pay(both, operation)];
    await started.reached(2);
    gate.open();
    await Promise.all(running);
    expect(own().map((span) => written(span)['idempotency.result'])).toEqual(
      Array(3).fill('unprotected'),
    );
    store.heal();
    await sdk.ended(4);
    await app!.nest.close();
    const saves = named('idempotency save');
    expect(saves.map(linksOf)).toEqual([[[idOf(own()[0]), 'own_attempt']]]);
    expect(saves.map((save) => written(save)['idempotency.attempt.end'])).toEqual(['completed']);
  });
});

describe('the reconciler', () => {
  it('has a span for a round that finds something, with a link to each attempt before', async () => {
    const { pay, reconciler, store } = await start({
      reconcile: { intervalMs: 86_400_000, afterMs: 1_000 },
    });
    reconciler.register('pay', { lease: { onTakeover: () => ({ value: 'found' }) } });
    const begins = store.sentOf('begin').length;
    await reconciler.reconcile();
    expect(store.sentOf('begin').length).toBeGreaterThan(begins);
    expect(sdk.spans).toEqual([]);
    const { key } = await abandon(store, 'pay');
    now += LEASE_MS + 1_000;
    await inJob(() => reconciler.reconcile());
    const [round] = named('idempotency reconcile');
    expect(written(round!)).toEqual({
      'idempotency.reconcile.coverage': 'complete',
      'idempotency.reconcile.completed': 1,
      'idempotency.reconcile.released': 0,
      'idempotency.reconcile.overtaken': 0,
      'idempotency.reconcile.failed': 0,
      'idempotency.reconcile.unknown': 0,
    });
    expect(round!.parentSpanContext?.spanId).toBe(idOf(named('job')[0]));
    expect(await pay(key, undefined, { payload: undefined })).toBe('found');
  });

  it('links to the span of the attempt that died', async () => {
    const { pay, reconciler, store } = await start({
      reconcile: { intervalMs: 86_400_000, afterMs: 1_000 },
    });
    const onTakeover = () => ({ value: 'found' });
    reconciler.register('pay', { lease: { onTakeover } });
    store.always(unavailable, 'complete', 'extend', 'release');
    const lease = { durationMs: LEASE_MS, maxExecutionMs: LEASE_MS, onTakeover };
    await pay(newKey(), undefined, { lease, storeErrors: { saveTimeoutMs: 20 } });
    const [died] = own();
    now += LEASE_MS + 1_000;
    await reconciler.reconcile();
    const [round] = named('idempotency reconcile');
    expect(linksOf(round!)).toEqual([[idOf(died), 'previous_attempt']]);
    expect(round!.parentSpanContext).toBeUndefined();
    store.heal();
  });
});
