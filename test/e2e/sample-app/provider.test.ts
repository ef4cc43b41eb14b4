import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import { Idempotent, requireIdempotencyContext } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { Ledger } from '../../../sample-app/src/ledger/ledger.js';
import { MemoryLedger } from '../../../sample-app/src/ledger/memory-ledger.js';
import { PaymentProvider } from '../../../sample-app/src/provider/payment-provider.js';
import { Gate } from '../../support/waiting/gate.js';
import { Tally } from '../../support/waiting/tally.js';
import { callingApp, type CallingApp } from '../../support/nest/calling-app.js';

const LEASE_MS = 60_000;

/** A shop whose first attempt at an order stops after the provider has moved the money. */
@Injectable()
class Checkout {
  readonly charged = new Tally();
  readonly gate = new Gate();

  constructor(private readonly provider: PaymentProvider) {}

  @Idempotent({
    operation: 'checkout',
    key: (order: string) => order,
    lease: { durationMs: LEASE_MS },
  })
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
let ledger: Ledger;
let apps: CallingApp[];

/** Processes of the shop, on one store and with one provider. */
async function shops(count: number): Promise<Checkout[]> {
  const store = memoryStore({ now: () => now });
  for (let i = 0; i < count; i += 1) {
    const providers = [
      Checkout,
      PaymentProvider,
      { provide: Ledger, useValue: ledger },
      { provide: ConfigService, useValue: new ConfigService({ PROVIDER_DELAY_MS: 20 }) },
    ];
    apps.push(await callingApp({ providers }, { store }));
  }
  return apps.map(({ nest }) => nest.get(Checkout));
}

beforeEach(() => {
  now = Date.UTC(2026, 0, 1);
  ledger = new MemoryLedger();
  apps = [];
});
afterEach(() => Promise.all(apps.map(({ nest }) => nest.close())));

it('a takeover does not charge twice, because the provider knows the key of the first attempt', async () => {
  const [stalled, other] = (await shops(2)) as [Checkout, Checkout];
  stalled.gate.close();
  const order = randomUUID();
  const first = stalled.pay(order);
  await stalled.charged.reached(1);
  now += LEASE_MS;
  const taker = await other.pay(order);
  expect(taker).toMatchObject({ attempt: 2, isTakeover: true });
  stalled.gate.open();
  expect(await first).toEqual(taker);
  expect(await ledger.entries()).toMatchObject([{ id: taker.charge, description: order }]);
});

it('two orders are two charges', async () => {
  const [checkout] = await shops(1);
  const [one, two] = await Promise.all([randomUUID(), randomUUID()].map((id) => checkout!.pay(id)));
  expect(one!.charge).not.toBe(two!.charge);
  expect(await ledger.entries()).toHaveLength(2);
});
