import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  IdempotencyOptionsError,
  IdempotencyReconciler,
  IdempotencyService,
  Idempotent,
  requireIdempotencyContext,
  type Recover,
} from 'nestjs-idempotency';
import { recordKey } from 'nestjs-idempotency/store';
import { memoryStore, type MemoryIdempotencyStore } from 'nestjs-idempotency/memory';
import { abandon, LEASE_MS, recordOf } from '../../support/engine/abandon.js';
import { Gate } from '../../support/waiting/gate.js';
import { Tally } from '../../support/waiting/tally.js';
import { callingApp, type CallingApp } from '../../support/nest/calling-app.js';

const OPERATION = 'payments.settle';

/** The business data: the effects, by key. */
@Injectable()
class Ledger {
  readonly done = new Map<string, unknown>();
  readonly begun = new Tally();
  readonly gate = new Gate();
}

const lookUp: Recover = ({ key }, services) => {
  const { done } = services.get(Ledger);
  return done.has(key) ? { value: done.get(key) } : 'run';
};

@Injectable()
class Payments {
  constructor(private readonly ledger: Ledger) {}

  @Idempotent({
    operation: OPERATION,
    key: (id: string) => id,
    scope: () => 'alice',
    lease: { durationMs: LEASE_MS, onTakeover: lookUp },
  })
  async settle(_id: string) {
    this.ledger.begun.add();
    await this.ledger.gate.pass();
    const { attempt, isTakeover } = requireIdempotencyContext();
    return { attempt, isTakeover };
  }
}

let now: number;
let store: MemoryIdempotencyStore;
let app: CallingApp;
/** Another process, whose attempts `app` takes over. */
let owner: CallingApp;
let payments: Payments;
let ledger: Ledger;

beforeEach(async () => {
  now = Date.UTC(2026, 0, 1);
  store = memoryStore({ now: () => now });
  app = await callingApp(
    { providers: [Payments, Ledger] },
    { store, limits: { shutdownTimeoutMs: 0 } },
  );
  payments = app.nest.get(Payments);
  ledger = app.nest.get(Ledger);
  const known = { provide: Ledger, useValue: ledger };
  owner = await callingApp(
    { providers: [Payments, known] },
    { store, limits: { shutdownTimeoutMs: 0 } },
  );
});
afterEach(() => Promise.all([app.nest.close(), owner.nest.close()]));

describe('a method with an abandoned attempt', () => {
  it('returns what onTakeover found, without running', async () => {
    const { key } = await abandon(store, OPERATION);
    now += LEASE_MS;
    ledger.done.set(key, 'settled');
    expect(await payments.settle(key)).toBe('settled');
    expect(await payments.settle(key)).toBe('settled');
    expect(ledger.begun.count).toBe(0);
    expect(app.events.map(({ type }) => type)).toContain('recovered');
  });

  it('runs as a takeover where onTakeover found nothing', async () => {
    const { key } = await abandon(store, OPERATION);
    now += LEASE_MS;
    expect(await payments.settle(key)).toEqual({ attempt: 2, isTakeover: true });
  });
});

describe("with lease.recoverOn: 'always'", () => {
  const lease = { onTakeover: lookUp, recoverOn: 'always' } as const;
  const operation = 'payments.import';

  it('run() returns what onTakeover finds before its first attempt, and stores it', async () => {
    const key = randomUUID();
    const call = { operation, key, scope: 'alice', lease };
    const run = () =>
      app.nest.get(IdempotencyService).run(call, () => {
        ledger.begun.add();
        return 'ran';
      });
    ledger.done.set(key, 'settled before');
    expect(await run()).toBe('settled before');
    ledger.done.delete(key);
    expect(await run()).toBe('settled before');
    expect(ledger.begun.count).toBe(0);
    expect(app.events.map(({ type }) => type)).toEqual([
      ...['acquired', 'recovered', 'completed', 'ended', 'replayed'],
    ]);
  });

  it('run() runs where nothing is found, and is rejected without a function', async () => {
    const service = app.nest.get(IdempotencyService);
    const call = { operation, key: randomUUID(), scope: 'alice' };
    expect(await service.run({ ...call, lease }, () => 'ran')).toBe('ran');
    const without = { ...call, lease: { ...lease, onTakeover: 'run' } } as const;
    await expect(service.run(without, () => 'never')).rejects.toBeInstanceOf(
      IdempotencyOptionsError,
    );
  });
});

describe('the reconciler', () => {
  const AFTER_MS = 300_000;

  it('recovers methods by their onTakeover', async () => {
    const done = await abandon(store, OPERATION);
    const notDone = await abandon(store, OPERATION);
    now += LEASE_MS + AFTER_MS;
    ledger.done.set(done.key, 'settled');
    const report = await app.nest.get(IdempotencyReconciler, { strict: false }).reconcile();
    expect(report).toMatchObject({ completed: 1, released: 1, unknown: 0 });
    expect(await recordOf(store, done)).toMatchObject({ state: 'completed' });
    expect(await recordOf(store, notDone)).toMatchObject({ state: 'released' });
    expect(await payments.settle(done.key)).toBe('settled');
    expect(ledger.begun.count).toBe(0);
  });

  it('finds the attempts that a method abandoned', async () => {
    const id = randomUUID();
    ledger.gate.close();
    const held = owner.nest.get(Payments).settle(id);
    await ledger.begun.reached(1);
    now += LEASE_MS + AFTER_MS;
    ledger.done.set(id, 'settled');
    await app.nest.get(IdempotencyReconciler, { strict: false }).reconcile();
    const request = { scope: ['alice'], operation: OPERATION, key: id };
    expect(await store.inspect(recordKey(request))).toMatchObject({
      state: 'completed',
    });
    ledger.gate.open();
    expect(await held).toBe('settled');
  });

  it('rejects an explicit registration of a method', () => {
    const reconciler = app.nest.get(IdempotencyReconciler, { strict: false });
    const registering = () => reconciler.register(OPERATION, { lease: { onTakeover: lookUp } });
    expect(registering).toThrow(IdempotencyOptionsError);
  });
});
