import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import { Idempotent, requireIdempotencyContext } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { Ledger } from '../../sample-app/src/ledger/ledger.js';
import { MemoryLedger } from '../../sample-app/src/ledger/memory-ledger.js';
import { PaymentProvider } from '../../sample-app/src/provider/payment-provider.js';
import { Gate } from '../support/http/gate.js';
import { Tally } from '../support/http/tally.js';
import { callingApp, type CallingApp } from './calls/support/calling-app.js';

const LEASE_MS = 60_000;

/** A shop whose first attempt at an order stops after the provider has moved the money. */
@Injectable()
class Checkout {
  readonly charged = new Tally();
  readonly gate = new Gate();

  constructor(private readonly provider: PaymentProvider) {}

  @Idempotent({ operation: 'checkout', key: (order: string) => order, leaseMs: LEASE_MS })
  async pay(order: string) {
    const { attempt, isTakeover, fencingToken, signal, downstreamKey } =
      requireIdempotencyContext();
    const reference = downstreamKey('provider/charge');
    const charge = { reference, userId: 'alice', amount: 4999, currency: 'EUR', fencingToken };
    const { id } = await this.provider.chargeOnce({ ...charge, description: order }, signal);
    this.charged.add();
    if (attempt === 1) await this.gate.pass();
    return { charge: id, attempt, isTakeover };
  }
}

let now: number;
let app: CallingApp;
let checkout: Checkout;

beforeEach(async () => {
  now = Date.UTC(2026, 0, 1);
  app = await callingApp(
    {
      providers: [
        Checkout,
        PaymentProvider,
        { provide: Ledger, useClass: MemoryLedger },
        { provide: ConfigService, useValue: new ConfigService({ PROVIDER_DELAY_MS: 20 }) },
      ],
    },
    { store: memoryStore({ now: () => now }) },
  );
  checkout = app.nest.get(Checkout);
  checkout.gate.close();
});
afterEach(() => app.nest.close());

it('a takeover does not charge twice: the provider knows the key of the first attempt', async () => {
  const order = randomUUID();
  const first = checkout.pay(order);
  await checkout.charged.reached(1);
  now += LEASE_MS;
  const taker = await checkout.pay(order);
  expect(taker).toMatchObject({ attempt: 2, isTakeover: true });
  checkout.gate.open();
  expect(await first).toEqual(taker);
  const charges = await app.nest.get(Ledger).entries();
  expect(charges).toMatchObject([{ id: taker.charge, description: order }]);
});

it('two orders are two charges', async () => {
  checkout.gate.open();
  const [one, two] = await Promise.all([randomUUID(), randomUUID()].map((id) => checkout.pay(id)));
  expect(one!.charge).not.toBe(two!.charge);
  expect(await app.nest.get(Ledger).entries()).toHaveLength(2);
});
