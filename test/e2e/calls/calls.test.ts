import { randomUUID } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  FailureReplayedError,
  Idempotent,
  IdempotencyService,
  requireIdempotencyContext,
} from 'nestjs-idempotency';
import { useStores } from '../../support/http/combinations.js';
import { Gate } from '../../support/waiting/gate.js';
import { Tally } from '../../support/waiting/tally.js';
import { callingApp, rejection, type CallingApp } from '../../support/nest/calling-app.js';

interface Order {
  readonly id: string;
  readonly tenant?: string | undefined;
  readonly amount?: number;
}

/** The effects, by order. */
class Book {
  readonly charges: string[] = [];
  readonly gate = new Gate();
  readonly begun = new Tally();

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

  @Idempotent({ key: (id: string) => id, duplicates: 'wait', lease: { durationMs: 60_000 } })
  async waitedFor(id: string) {
    this.book.begun.add();
    await this.book.gate.pass();
    this.book.charges.push(id);
    return this.book.of(id);
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

const stores = useStores();

describe.each(['memory', 'redis'] as const)('a method with @Idempotent() on %s', (kind) => {
  let app: CallingApp;
  let payments: Payments;
  let book: Book;

  beforeAll(async () => {
    app = await callingApp({ providers: [Payments, Book] }, { store: stores.fresh(kind) });
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

  it('takes the protocol’s options: duplicates wait with duplicates: wait', async () => {
    const id = randomUUID();
    book.gate.close();
    const begun = book.begun.count;
    const first = payments.waitedFor(id);
    await book.begun.reached(begun + 1);
    const second = payments.waitedFor(id);
    book.gate.open();
    expect(await Promise.all([first, second])).toEqual([1, 1]);
    expect(book.of(id)).toBe(1);
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

  it('returns a value that the policy does not keep as it is, without encoding it', async () => {
    const call = { operation: 'counted', key: randomUUID(), scope: 'acme', outcome: () => false };
    const service = app.nest.get(IdempotencyService, { strict: false });
    let runs = 0;
    const run = () => service.run(call, () => new Map([['runs', (runs += 1)]]));
    expect(await run()).toEqual(new Map([['runs', 1]]));
    expect(await run()).toEqual(new Map([['runs', 2]]));
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
