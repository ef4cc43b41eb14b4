import { randomInt } from 'node:crypto';
import { describe, expect, it, jest } from '@jest/globals';
import { newIdempotencyKey, type IdempotentFetchOptions } from 'nestjs-idempotency-client';
import type { Fault } from '../../support/http/wire/fault-proxy.js';
import { Random } from '../../integration/differential/random.js';
import { useServer } from '../../support/servers/use-server.js';
import { forEachNumber, type Paid, SamplePayments } from './sample-payments.js';

/** CLIENT_PAYMENTS sets the number of payments, CLIENT_SEED repeats the faults of a run. */
const wanted = process.env.CLIENT_PAYMENTS;
const payments = Number(wanted ?? 50);
const seed = Number(process.env.CLIENT_SEED ?? randomInt(2 ** 31));
const AT_A_TIME = 10;

const timeoutMs: IdempotentFetchOptions = {
  backoffBase: 2,
  backoffCap: 20,
  maxTries: 50,
  tryTimeout: 10_000,
};

if (wanted !== undefined) jest.setTimeout(600_000);

/** The platform makes no difference to the client. */
const platform = 'fastify';

describe(`payments to the sample app on ${platform}`, () => {
  const api = useServer(() => SamplePayments.start(platform, 5));

  /** Makes all payments, each with its own amount, while the proxy injects faults. */
  async function payAll(fault: (random: number) => Fault, pay = api.pay.bind(api)) {
    const random = new Random(seed);
    const befell = new Map<string, number>();
    api.proxy.follow(() => {
      const drawn = fault(random.fraction());
      const name = typeof drawn === 'string' ? drawn : 'delay';
      befell.set(name, (befell.get(name) ?? 0) + 1);
      return drawn;
    });
    const before = (await api.charges()).length;
    const paid = await forEachNumber(payments, AT_A_TIME, (number) =>
      pay(1_000 + number, timeoutMs),
    );
    const charges = (await api.charges()).slice(before);
    if (wanted !== undefined) {
      console.log(
        `${platform}, seed ${seed}: ${paid.length} payments in ${api.proxy.exchanges} requests, ${charges.length} charges; ${[...befell].map(([name, times]) => `${name}: ${times}`).join(', ')}`,
      );
    }
    return { paid, charges, befell };
  }

  /** Expects that each payment was charged once, with its amount, and reported so to its client. */
  function expectOneChargeEach({ paid, charges }: Awaited<ReturnType<typeof payAll>>) {
    expect({ seed, charges: charges.length }).toEqual({ seed, charges: payments });
    const reported = paid.map(({ response, payment }) => [
      response.status,
      payment.id,
      payment.amount,
    ]);
    const chargeOf = new Map(charges.map((charge) => [charge.amount, charge.id]));
    expect(reported).toEqual(
      paid.map((_, index) => [201, chargeOf.get(1_001 + index), 1_001 + index]),
    );
  }

  it('charge once each under every fault of requests and responses', async () => {
    const faults: readonly Fault[] = [
      'lose the answer',
      'break off the answer',
      'lose the request',
      'unavailable',
      { delayMs: 30 },
    ];
    const run = await payAll((random) => faults[Math.floor(random * 10)] ?? 'none');
    expectOneChargeEach(run);
    expect(run.befell.size).toBeGreaterThan(2);
    const succeeded = (run.befell.get('none') ?? 0) + (run.befell.get('delay') ?? 0);
    expect({ seed, succeeded }).toEqual({ seed, succeeded: payments });
    expect(run.paid.reduce((sum, { tries }) => sum + tries, 0)).toBe(api.proxy.exchanges);
  });

  it('charge more than once when a careless client generates a new key for every try', async () => {
    const careless = async (amount: number): Promise<Paid> => {
      for (;;) {
        try {
          return await api.pay(amount, { key: newIdempotencyKey(), maxTries: 1 });
        } catch {
          continue;
        }
      }
    };
    const { charges, befell } = await payAll(
      (random) => (random < 0.3 ? 'lose the answer' : 'none'),
      careless,
    );
    expect(charges.length).toBe(payments + (befell.get('lose the answer') ?? 0));
  });
});
