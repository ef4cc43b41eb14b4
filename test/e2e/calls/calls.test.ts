import { randomUUID } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  FailureReplayedError,
  IdempotencyOptionsError,
  IdempotencyReconciler,
  IdempotencyService,
  Idempotent,
  type Recover,
  requireIdempotencyContext,
} from 'nestjs-idempotency';
import { recordKey } from 'nestjs-idempotency/store';
import { type MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import { Gate } from '../../support/waiting/gate.js';
import { Tally } from '../../support/waiting/tally.js';
import { callingApp, type CallingApp, rejection } from '../../support/nest/calling-app.js';
import { abandon, LEASE_MS } from '../../support/engine/abandon.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';

interface Order {
  readonly id: string;
  readonly tenant?: string | undefined;
  readonly amount?: number;
}

/** The effects, by order. */
class Book {
  readonly charges: string[] = [];

  of(id: string): number {
    return this.charges.filter((each) => each === id).length;
  }
}

@Injectable()
class Payments {
  constructor(private readonly book: Book) {}

  @Idempotent({ operation: 'payments.charge', key: ({ id }: Order) => id })
  async charge({ id, amount = 1 }: Order, note?: string) {
    await setImmediate();
    this.book.charges.push(id);
    const { attempt, key, operation, scope } = requireIdempotencyContext();
    return { amount, note, attempt, key, operation, scope };
  }

  @Idempotent({
    key: ({ id }: Order) => id,
    scope: ({ tenant }) => tenant!,
    payload: ({ amount }) => ({ amount }),
  })
  async chargeForTenant({ id, tenant }: Order) {
    this.book.charges.push(id);
    const { operation, scope } = requireIdempotencyContext();
    return Promise.resolve({ tenant, operation, scope });
  }

  @Idempotent({ key: (id: string) => id, outcome: () => true })
  async failingForGood(id: string): Promise<string> {
    this.book.charges.push(id);
    return Promise.reject(new RangeError('planned'));
  }

  @Idempotent({
    key: ({ id }: Order) => id,
    payload: ({ amount }) => amount,
    onRejected: ({ code }, { id }): { instead: string } => {
      if (id.startsWith('throw')) throw new TypeError(`no: ${code}`);
      return { instead: `${code} of ${id}` };
    },
  })
  async withFallback({ id }: Order) {
    this.book.charges.push(id);
    return Promise.resolve({ instead: 'none' });
  }

  @Idempotent({
    key: () => {
      throw new TypeError('planned: no key');
    },
  })
  async keyThrows() {
    return Promise.resolve('never');
  }

  @Idempotent({ key: (id: string) => id, payload: async (id) => Promise.resolve(id) })
  async latePayload(id: string) {
    return Promise.resolve(id);
  }

  @Idempotent({ key: (id: string) => id, payload: (id: string & { ammount?: 1 }) => id.ammount })
  async misspeltPayload(id: string) {
    return Promise.resolve(id);
  }
}

describe('a method with @Idempotent()', () => {
  let app: CallingApp;
  let payments: Payments;
  let book: Book;

  beforeAll(async () => {
    app = await callingApp({ providers: [Payments, Book] });
    payments = app.nest.get(Payments);
    book = app.nest.get(Book);
  });
  afterAll(() => app.nest.close());

  it('runs once for a key, and returns the first value to retries [P04]', async () => {
    const id = randomUUID();
    const first = await payments.charge({ id, amount: 5 }, 'first');
    const expected = {
      amount: 5,
      note: 'first',
      attempt: 1,
      key: id,
      operation: 'payments.charge',
      scope: [],
    };
    expect(first).toEqual(expected);
    // Without "payload", only the key is compared.
    expect(await payments.charge({ id, amount: 6 }, 'second')).toEqual(expected);
    expect(book.of(id)).toBe(1);
    expect(await payments.charge({ id: randomUUID() })).toMatchObject({ amount: 1 });
  });

  it('shares its records with IdempotencyService.run() of the same operation, scope and payload', async () => {
    const id = randomUUID();
    const first = await payments.chargeForTenant({ id, tenant: 'acme', amount: 1 });
    const call = {
      operation: 'Payments.chargeForTenant',
      key: id,
      scope: 'acme',
      payload: { amount: 1 },
    };
    const service = app.nest.get(IdempotencyService, { strict: false });
    expect(await service.runDetailed(call, () => 'other')).toEqual({
      value: first,
      replayed: true,
    });
  });

  it('runs once for each scope, and rejects another payload', async () => {
    const id = randomUUID();
    const [acme, globex] = await Promise.all(
      ['acme', 'globex'].map((tenant) => payments.chargeForTenant({ id, tenant, amount: 1 })),
    );
    expect(acme).toMatchObject({ tenant: 'acme', scope: ['acme'] });
    expect(globex).toMatchObject({ tenant: 'globex', scope: ['globex'] });
    expect(acme).toMatchObject({ operation: 'Payments.chargeForTenant' });
    const other = payments.chargeForTenant({ id, tenant: 'acme', amount: 2 });
    await expect(other).rejects.toMatchObject({ code: 'idempotency_key_reused', retryable: false });
    expect(book.of(id)).toBe(2);
  });

  it('is rejected without a scope', async () => {
    const id = randomUUID();
    const error = await rejection(payments.chargeForTenant({ id }));
    expect(error).toMatchObject({ code: 'idempotency_caller_unknown', retryable: false });
    expect(error.message).toContain('"scope"');
    expect(book.of(id)).toBe(0);
  });

  it.each<[unknown, string]>([
    ['', 'idempotency_key_missing'],
    [undefined, 'idempotency_key_missing'],
    [null, 'idempotency_key_missing'],
    [7, 'idempotency_options_invalid'],
    [Promise.resolve('k'), 'idempotency_options_invalid'],
  ])('is rejected without a key: %p', async (id, code) => {
    const before = book.charges.length;
    const error = await rejection(payments.charge({ id: id as string }));
    expect(error).toMatchObject({ code });
    expect(error.message).toContain('"key"');
    expect(book.charges).toHaveLength(before);
  });

  it('rejects, and does not throw synchronously, when a function of its options fails', async () => {
    await expect(payments.keyThrows()).rejects.toThrow('planned: no key');
    await expect(payments.latePayload('k')).rejects.toThrow(
      '"payload" of Payments.latePayload returned a promise',
    );
    await expect(payments.misspeltPayload('k')).rejects.toThrow(
      '"payload" of Payments.misspeltPayload returned undefined',
    );
  });

  it('replays a failure that "keep" keeps', async () => {
    const id = randomUUID();
    await expect(payments.failingForGood(id)).rejects.toThrow(RangeError);
    await expect(payments.failingForGood(id)).rejects.toThrow(FailureReplayedError);
    expect(book.of(id)).toBe(1);
  });

  it('replaces a rejection by what "onRejected" returns or throws', async () => {
    const [id, throwing] = [randomUUID(), `throw-${randomUUID()}`];
    expect(await payments.withFallback({ id, amount: 1 })).toEqual({ instead: 'none' });
    expect(await payments.withFallback({ id, amount: 2 })).toEqual({
      instead: `idempotency_key_reused of ${id}`,
    });
    await payments.withFallback({ id: throwing, amount: 1 });
    await expect(payments.withFallback({ id: throwing, amount: 2 })).rejects.toThrow(
      new TypeError('no: idempotency_key_reused'),
    );
    expect(await payments.withFallback({ id: '' })).toEqual({
      instead: 'idempotency_key_missing of ',
    });
    expect([book.of(id), book.of(throwing), book.of('')]).toEqual([1, 1, 0]);
  });
});

describe('an abandoned attempt', () => {
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
      lease: { duration: LEASE_MS, onTakeover: lookUp },
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
      { store, limits: { shutdownTimeout: 0 } },
    );
    payments = app.nest.get(Payments);
    ledger = app.nest.get(Ledger);
    const known = { provide: Ledger, useValue: ledger };
    owner = await callingApp(
      { providers: [Payments, known] },
      { store, limits: { shutdownTimeout: 0 } },
    );
  });
  afterEach(() => Promise.all([app.nest.close(), owner.nest.close()]));

  it('returns what onTakeover found, without running', async () => {
    const { key } = await abandon(store, OPERATION);
    now += LEASE_MS;
    ledger.done.set(key, 'settled');
    expect(await payments.settle(key)).toBe('settled');
    expect(await payments.settle(key)).toBe('settled');
    expect(ledger.begun.count).toBe(0);
    expect(app.events.map(({ type }) => type)).toContain('recovered');
  });

  it("run() returns what onTakeover finds before its first attempt, with lease.recoverOn: 'always'", async () => {
    const key = randomUUID();
    const lease = { onTakeover: lookUp, recoverOn: 'always' } as const;
    const run = () =>
      app.nest
        .get(IdempotencyService)
        .run({ operation: 'payments.import', key, scope: 'alice', lease }, () => {
          ledger.begun.add();
          return 'ran';
        });
    ledger.done.set(key, 'settled before');
    expect(await run()).toBe('settled before');
    ledger.done.delete(key);
    expect(await run()).toBe('settled before');
    expect(ledger.begun.count).toBe(0);
  });

  it('of a method is found by the reconciler, which recovers it by onTakeover', async () => {
    const id = randomUUID();
    ledger.gate.close();
    const held = owner.nest.get(Payments).settle(id);
    await ledger.begun.reached(1);
    now += LEASE_MS + 300_000;
    ledger.done.set(id, 'settled');
    await app.nest.get(IdempotencyReconciler, { strict: false }).reconcile();
    const request = { scope: ['alice'], operation: OPERATION, key: id };
    expect(await store.inspect(recordKey(request))).toMatchObject({
      state: 'completed',
    });
    ledger.gate.open();
    expect(await held).toBe('settled');
    expect(await payments.settle(id)).toBe('settled');
    expect(ledger.begun.count).toBe(1);
  });
});

describe('a downstream key', () => {
  const OPERATION = 'payments.charge';

  /** Records the idempotency keys that the payment provider received. */
  @Injectable()
  class Provider {
    readonly keys: string[] = [];
    isDown = false;

    async charge(key: string) {
      this.keys.push(key);
      return this.isDown ? Promise.reject(new Error('planned: down')) : Promise.resolve('charged');
    }
  }

  /** Asks the provider for the charge, and finds none. */
  const lookUpAndRun: Recover = async ({ downstreamKey }, services) => {
    await services.get(Provider).charge(downstreamKey('stripe'));
    return 'run' as const;
  };

  @Injectable()
  class Payments {
    constructor(private readonly provider: Provider) {}

    @Idempotent({
      operation: OPERATION,
      key: (id: string) => id,
      scope: () => 'alice',
      lease: { duration: LEASE_MS, onTakeover: lookUpAndRun },
    })
    async charge(_id: string) {
      return this.provider.charge(requireIdempotencyContext().downstreamKey('stripe'));
    }
  }

  let now: number;
  let records: MemoryIdempotencyStore;
  let store: FaultyStore;
  let app: CallingApp;
  let service: IdempotencyService;
  let provider: Provider;

  beforeEach(async () => {
    now = Date.UTC(2026, 0, 1);
    records = memoryStore({ now: () => now });
    store = new FaultyStore(records);
    const options = { store, storeErrors: { whenUnavailable: 'execute' } } as const;
    app = await callingApp({ providers: [Payments, Provider] }, options);
    service = app.nest.get(IdempotencyService, { strict: false });
    provider = app.nest.get(Provider);
  });
  afterEach(() => app.nest.close());

  /** The downstream key in a call of an operation. */
  const keyOf = (
    call: { operation?: string; key?: string; scope?: string | string[] },
    name = 's',
  ) =>
    service.run(
      { operation: OPERATION, key: 'k', scope: 'alice', ...call, outcome: () => false },
      (context) => context.downstreamKey(name),
    );

  it('is a fixed string of 43 base64url characters', async () => {
    const key = await keyOf({}, 'stripe/charge');
    expect(key).toBe('NoNreHIuhXalLAxjccik6rvyefnjuepJoGiLfX6oZ4I');
    expect(key).toMatch(/^[\w-]{43}$/);
  });

  it('differs for another name, key, scope or operation', async () => {
    const keys = [
      await keyOf({}),
      await keyOf({}, 't'),
      await keyOf({ key: 'l' }),
      await keyOf({ scope: 'bob' }),
      await keyOf({ scope: ['alice', 'k'] }),
      await keyOf({ operation: 'payments.refund' }),
      await keyOf({}, 'ks'),
    ];
    expect(new Set(keys).size).toBe(keys.length);
  });

  it.each([[''], [null], [7]])('requires a name: %p', async (name) => {
    const error = await rejection(keyOf({}, name as string));
    expect(error).toBeInstanceOf(IdempotencyOptionsError);
    expect(error.message).toMatch(/^downstreamKey\(\) was called in payments\.charge without/);
  });

  it('is the same on every attempt: after failures, and without the store', async () => {
    const id = randomUUID();
    provider.isDown = true;
    await expect(app.nest.get(Payments).charge(id)).rejects.toThrow('planned: down');
    store.next('begin', unavailable);
    await expect(app.nest.get(Payments).charge(id)).rejects.toThrow('planned: down');
    provider.isDown = false;
    await app.nest.get(Payments).charge(id);
    expect(app.events.map(({ type }) => type)).toContain('unprotected');
    expect(provider.keys).toHaveLength(3);
    expect(new Set(provider.keys).size).toBe(1);
  });

  it('is the same for a takeover and for its onTakeover', async () => {
    const { key } = await abandon(records, OPERATION);
    now += LEASE_MS;
    await app.nest.get(Payments).charge(key);
    expect(provider.keys).toHaveLength(2);
    expect(new Set(provider.keys).size).toBe(1);
  });

  it('is the same for the reconciler', async () => {
    const { key } = await abandon(records, OPERATION);
    now += LEASE_MS + 300_000;
    await app.nest.get(IdempotencyReconciler, { strict: false }).reconcile();
    expect(provider.keys).toEqual([await keyOf({ key }, 'stripe')]);
  });
});
