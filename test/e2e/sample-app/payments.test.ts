import { createHash, randomUUID } from 'node:crypto';
import { appendFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { INestApplication } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { FileLedger } from '../../../sample-app/src/ledger/file-ledger.js';
import { type Charge, Ledger, type LedgerEntry } from '../../../sample-app/src/ledger/ledger.js';
import { welcome } from '../../../sample-app/src/welcome.js';
import { MemoryLedger } from '../../../sample-app/src/ledger/memory-ledger.js';
import { PaymentProvider } from '../../../sample-app/src/provider/payment-provider.js';
import { faults } from '../../../sample-app/demo/messages/faults.js';
import { copiesOf, placedOrders } from '../../../sample-app/demo/messages/orders.js';
import { Progress } from '../../../sample-app/demo/messages/progress.js';
import { randomOf } from '../../../sample-app/demo/messages/random.js';
import { demoSettings } from '../../../sample-app/demo/messages/settings.js';
import {
  checksOf,
  type Observation,
  summaryOf,
} from '../../../sample-app/demo/messages/summary.js';
import { DELIVERY_LIMIT } from '../../../sample-app/src/orders/orders-queue.js';

// The app reads its settings when it is imported.
process.env.STORE = 'memory';
process.env.PROVIDER_DELAY_MS = '20';
const blobs = await mkdtemp(join(tmpdir(), 'sample-blobs-'));
process.env.BLOBS_DIRECTORY = blobs;
afterAll(() => rm(blobs, { recursive: true }));
const { createApp } = await import('../../../sample-app/src/create-app.js');
const { validateEnvironment } = await import('../../../sample-app/src/config/environment.js');

const order = { amount: 4999, currency: 'EUR' };

interface Request {
  path?: string;
  token?: string;
  key?: string;
  body?: object;
}

describe.each(['express', 'fastify'] as const)('the sample app on %s', (platform) => {
  let app: INestApplication;
  let url: string;

  beforeAll(async () => {
    app = await createApp(platform);
    await app.listen(0, '127.0.0.1');
    url = await app.getUrl();
  });

  afterAll(() => app.close());

  async function post({
    path = '/payments',
    token = 'alice-demo-token',
    key,
    body = order,
  }: Request) {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        ...(key === undefined ? {} : { 'idempotency-key': key }),
      },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    return {
      status: response.status,
      type: response.headers.get('content-type'),
      isReplay: response.headers.get('idempotent-replayed') === 'true',
      text,
      json: JSON.parse(text) as Record<string, unknown>,
    };
  }

  async function get(path: string, token: string) {
    const response = await fetch(url + path, { headers: { authorization: `Bearer ${token}` } });
    return { status: response.status, json: (await response.json()) as Record<string, unknown> };
  }

  /** Counts the ledger entries that `action` adds. */
  async function movementsDuring(action: () => Promise<unknown>): Promise<number> {
    const ledger = app.get(Ledger);
    const before = await ledger.entries();
    await action();
    return (await ledger.entries()).length - before.length;
  }

  it('charges once, and replays the first response', async () => {
    const key = randomUUID();
    const charges = await movementsDuring(async () => {
      const first = await post({ key });
      const second = await post({ key });

      expect(first).toMatchObject({ status: 201, isReplay: false, json: order });
      expect(second).toEqual({ ...first, isReplay: true });
    });
    expect(charges).toBe(1);
  });

  it('gives another user with the same key their own payment', async () => {
    const key = randomUUID();
    const charges = await movementsDuring(async () => {
      const alice = await post({ key });
      const bob = await post({ key, token: 'bob-demo-token' });

      expect(bob).toMatchObject({ status: 201, isReplay: false });
      expect(bob.json.id).not.toBe(alice.json.id);
    });
    expect(charges).toBe(2);
  });

  it('shows a payment to its owner only', async () => {
    const { json: payment } = await post({ key: randomUUID() });
    const path = `/payments/${String(payment.id)}`;

    expect(await get(path, 'alice-demo-token')).toEqual({ status: 200, json: payment });
    expect(await get(path, 'bob-demo-token')).toMatchObject({ status: 404 });
  });

  it('replays a declined card', async () => {
    const request = { key: randomUUID(), body: { ...order, amount: 4020 } };
    const charges = await movementsDuring(async () => {
      const first = await post(request);
      const second = await post(request);

      expect(first).toMatchObject({
        status: 402,
        isReplay: false,
        json: { code: 'card_declined' },
      });
      expect(second).toEqual({ ...first, isReplay: true });
    });
    expect(charges).toBe(0);
  });

  it('asks the provider again after an outage', async () => {
    const request = { key: randomUUID(), body: { ...order, amount: 5000 } };
    const first = await post(request);
    const second = await post(request);

    expect(first).toMatchObject({ status: 503, isReplay: false, json: { code: 'provider_down' } });
    expect(second).toEqual(first);
  });

  it('refunds once, and no more than was paid', async () => {
    const { json: payment } = await post({ key: randomUUID() });
    const path = `/payments/${String(payment.id)}`;
    const refund = { path: `${path}/refunds`, key: randomUUID(), body: { amount: 4000 } };
    const refunds = await movementsDuring(async () => {
      const first = await post(refund);
      const second = await post(refund);
      const tooMuch = await post({ ...refund, key: randomUUID() });

      expect(first).toMatchObject({ status: 201, json: { paymentId: payment.id } });
      expect(second).toEqual({ ...first, isReplay: true });
      expect(tooMuch).toMatchObject({ status: 400, json: { message: 'Only 999 can be refunded' } });
    });
    expect(refunds).toBe(1);
    expect(await get(path, 'alice-demo-token')).toMatchObject({ json: { refunded: 4000 } });
  });

  it('refunds no more than was paid when two requests are concurrent', async () => {
    const { json: payment } = await post({ key: randomUUID() });
    const path = `/payments/${String(payment.id)}`;
    const refund = () =>
      post({ path: `${path}/refunds`, key: randomUUID(), body: { amount: 4000 } });
    const responses = await Promise.all([refund(), refund()]);
    expect(responses.map(({ status }) => status).sort()).toEqual([201, 400]);
    expect(await get(path, 'alice-demo-token')).toMatchObject({ json: { refunded: 4000 } });
  });

  it('makes an invoice of 40 MB once, and replays every byte of it', async () => {
    const { json: payment } = await post({ key: randomUUID() });
    const key = randomUUID();
    const ask = async (token = 'alice-demo-token') => {
      const response = await fetch(`${url}/payments/${String(payment.id)}/invoices`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'idempotency-key': key },
      });
      const { status, headers } = response;
      const hash = createHash('sha256');
      let bytes = 0;
      for await (const chunk of response.body!) {
        hash.update(chunk as Uint8Array);
        bytes += (chunk as Uint8Array).length;
      }
      const isReplay = headers.get('idempotent-replayed') === 'true';
      const name = headers.get('content-disposition');
      return {
        status,
        isReplay,
        type: headers.get('content-type'),
        name,
        bytes,
        digest: hash.digest('hex'),
        // Of what is sent while it is stored, it is not known.
        length: headers.get('content-length'),
      };
    };
    const first = await ask();
    expect(first).toMatchObject({
      status: 201,
      isReplay: false,
      type: 'text/csv',
      bytes: 40_000_000,
      length: null,
    });
    expect(first.name).toMatch(/^attachment; filename="invoice-[\w-]+\.csv"$/);
    expect(await ask()).toEqual({ ...first, isReplay: true, length: '40000000' });
    expect(await ask('bob-demo-token')).toMatchObject({ status: 404, isReplay: false });
  });

  it('counts the charges of each user, and duplicate charges', async () => {
    const ledger = app.get(Ledger);
    const counted = async () => (await get('/ledger', 'none needed')).json as any;
    const before = await counted();
    await post({ key: randomUUID() });
    const { json: payment } = await post({ key: randomUUID(), token: 'bob-demo-token' });
    const path = `/payments/${String(payment.id)}/refunds`;
    await post({ path, key: randomUUID(), token: 'bob-demo-token', body: { amount: 1 } });
    const { alice, bob } = before.charges as { alice: number; bob: number };

    expect(before.chargedTwice).toBe(0);
    const after = { charges: { alice: alice + 1, bob: bob + 1 }, chargedTwice: 0 };
    expect(await counted()).toEqual(after);

    const charge = (await ledger.entries()).find(
      ({ kind, userId }) => kind === 'charge' && userId === 'alice',
    );
    await ledger.append({ ...charge!, id: randomUUID() });
    expect(await counted()).toEqual({
      charges: { alice: alice + 2, bob: bob + 1 },
      chargedTwice: 1,
    });
  });

  it.each([
    ['/', 'text/html; charset=utf-8'],
    ['/page/page.css', 'text/css; charset=utf-8'],
    ['/page/page.js', 'text/javascript; charset=utf-8'],
  ])('serves %s as %s', async (path, type) => {
    const { status, headers } = await fetch(url + path);
    expect([status, headers.get('content-type')]).toEqual([200, type]);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
  });

  it('serves a page that loads nothing from other origins', async () => {
    const response = await fetch(url);
    expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(await response.text()).not.toMatch(/(src|href)="[^"]*\/\//);
  });

  it.each(['index.ts', 'nothing.js', '%2e%2e%2findex.ts', '..%2f..%2fpackage.json'])(
    'does not serve /client/%s',
    async (file) => {
      expect((await fetch(`${url}/client/${file}`)).status).toBe(404);
    },
  );
});

describe("the file of the sample app's ledger", () => {
  it('loses no other line when a crash has torn one', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'ledger-'));
    try {
      const ledger = new FileLedger(join(folder, 'ledger.jsonl'));
      const ids = async () => (await ledger.entries()).map(({ id }) => id);
      const charge = (id: string): LedgerEntry => ({
        kind: 'charge',
        id,
        reference: id,
        userId: 'alice',
        description: undefined,
        fencingToken: 1,
        at: '2026-01-01T00:00:00.000Z',
        ...order,
      });
      await ledger.append(charge('1'));
      await appendFile(ledger.path, JSON.stringify(charge('2')).slice(0, 20));
      expect(await ids()).toEqual(['1']);
      await ledger.append(charge('3'));
      await ledger.append(charge('4'));
      expect(await ids()).toEqual(['1', '3', '4']);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

describe('the settings of the sample app', () => {
  it('ignore a database URL without STORE=postgres', () => {
    const settings = { DATABASE_URL: 'postgres://127.0.0.1/of-another-program' };
    expect(validateEnvironment(settings)).toMatchObject({ STORE: 'memory' });
    expect(validateEnvironment({ ...settings, STORE: 'postgres' })).toMatchObject(settings);
  });

  it.each([[{ DATABASE_URL: 'mysql://127.0.0.1/shop' }, 'DATABASE_URL must be']])(
    'reject %j for PostgreSQL',
    (settings, complaint) => {
      expect(() => validateEnvironment({ ...settings, STORE: 'postgres' })).toThrow(complaint);
    },
  );

  it('accept the origin of another page', () => {
    const { CORS_ORIGIN } = validateEnvironment({ CORS_ORIGIN: 'https://shop.example.com' });
    expect(CORS_ORIGIN).toBe('https://shop.example.com');
  });

  it.each(['shop.example.com', 'https://shop.example.com/', '*'])(
    'reject %s as an origin, because a browser never sends it',
    (CORS_ORIGIN) => {
      expect(() => validateEnvironment({ CORS_ORIGIN })).toThrow('CORS_ORIGIN must be');
    },
  );
});

describe('the welcome of the sample app', () => {
  it('names the page to open, and three requests to paste', () => {
    const text = welcome('http://127.0.0.1:3000', validateEnvironment({}));
    expect(text).toContain('\nOpen http://127.0.0.1:3000 in a browser');
    expect(text.match(/^curl -i http:\/\/127\.0\.0\.1:3000\/payments /gm)).toHaveLength(3);
  });
});

describe("the sample app's provider", () => {
  it('charges once for a reference, also for the attempt that takes over', async () => {
    const ledger = new MemoryLedger();
    const provider = new PaymentProvider(ledger, new ConfigService({ PROVIDER_DELAY_MS: 2 }));
    const charge = { reference: randomUUID(), userId: 'alice', description: undefined, ...order };
    const { signal } = new AbortController();
    const first = await provider.chargeOnce({ ...charge, fencingToken: 1 }, signal);
    expect(await provider.chargeOnce({ ...charge, fencingToken: 2 }, signal)).toEqual(first);
    expect(await ledger.entries()).toEqual([first]);
  });
});

describe('the verdict of npm run demo:messages', () => {
  const orders = placedOrders(3);
  const charges = orders.map(({ id, customer, amount, currency }): Charge => ({
    kind: 'charge',
    id: `charge of ${id}`,
    reference: `reference of ${id}`,
    userId: customer,
    amount,
    currency,
    description: id,
    fencingToken: 1,
    at: '2026-01-01T00:00:00.000Z',
  }));
  const [charge] = charges;
  const good: Observation = {
    orders,
    published: 7,
    deliveries: 9,
    redeliveries: 2,
    replays: 5,
    takeovers: 1,
    askedAgain: 1,
    charges,
    remaining: 0,
    deadLettered: 0,
  };
  const failuresOf = (seen: Observation) =>
    Object.entries(checksOf(seen)).flatMap(([check, holds]) => (holds ? [] : [check]));

  it('is good when each order was charged once', () => {
    expect(failuresOf(good)).toEqual([]);
    expect(summaryOf(good)).toMatch(/^charges per order +1×3$/m);
  });

  it.each<[string, Partial<Observation>, RegExp, string]>([
    [
      'an order was charged twice',
      { charges: [...charges, charge!] },
      /1×2, 2×1$/,
      'every order was charged once',
    ],
    [
      'an order was not charged',
      { charges: charges.slice(1) },
      /0×1, 1×2$/,
      'every order was charged once',
    ],
    [
      'a customer was charged without an order',
      { charges: [...charges, { ...charge!, description: 'none' }] },
      /40\.03 of 30\.03 EUR$/m,
      'nothing else was charged',
    ],
    [
      'the handler ran again without a report',
      { takeovers: 0 },
      /^takeovers reported +0 /m,
      'every duplicate request to the provider followed a takeover',
    ],
    ['a message is left', { remaining: 1 }, /^left in the queue +1$/m, 'the queue is empty'],
    [
      'a message was dead-lettered',
      { deadLettered: 1 },
      /^dead-lettered +1$/m,
      'nothing was dead-lettered',
    ],
  ])('is bad when %s', (_, wrong, row, check) => {
    expect(failuresOf({ ...good, ...wrong })).toContain(check);
    expect(summaryOf({ ...good, ...wrong })).toMatch(row);
  });
});

describe('the progress of npm run demo:messages', () => {
  const MINUTE_MS = 60_000;
  const counts = (charged: number) => ({ orders: 1000, charged, deliveries: 2 * charged });

  it('is printed for each tenth of the orders', () => {
    const progress = new Progress();
    const tenths = [0, 99, 100, 150, 420, 1000].map(
      (charged) => progress.next(counts(charged), 0).isNewTenth,
    );
    expect(tenths).toEqual([false, false, true, false, true, true]);
    expect(progress.next(counts(1000), 0).line).toBe(
      '1,000 of 1,000 orders charged, after 2,000 deliveries',
    );
  });

  it('may take any time, but may not stand still', () => {
    const progress = new Progress();
    for (let minute = 0; minute < 100; minute += 1) {
      progress.next(counts(minute), minute * MINUTE_MS);
    }
    progress.next(counts(99), 100 * MINUTE_MS);
    expect(() => progress.next(counts(99), 100 * MINUTE_MS + 1)).toThrow(
      'Nothing has happened for 60 s: 99 of 1,000 orders charged',
    );
  });
});

describe('the settings of npm run demo:messages', () => {
  it('are a thousand orders on its own broker by default', () => {
    expect(demoSettings({})).toEqual({ orders: 1000, seed: 1, brokerUrl: undefined });
  });

  it.each([
    [{ DEMO_ORDERS: '0' }, 'DEMO_ORDERS must be an integer from 1 to 100000, got 0'],
    [{ DEMO_SEED: 'one' }, 'DEMO_SEED must be an integer'],
    [{ BROKER_URL: 'amqps://127.0.0.1' }, 'BROKER_URL must start with amqp://'],
  ])('reject %j', (environment, complaint) => {
    expect(() => demoSettings(environment)).toThrow(complaint);
  });

  it("close an order's channel less often than the broker's delivery limit", () => {
    expect(faults.length).toBeLessThanOrEqual(DELIVERY_LIMIT);
  });

  it('make the same copies for one seed, and others for another', () => {
    const orders = placedOrders(50);
    const copies = (seed: number) => copiesOf(orders, randomOf(seed));
    expect(copies(1)).toEqual(copies(1));
    expect(copies(1)).not.toEqual(copies(2));
    expect(new Set(copies(1))).toEqual(new Set(orders));
  });
});
