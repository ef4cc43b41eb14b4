import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  dehydrate,
  hydrate,
  MutationObserver,
  onlineManager,
  QueryClient,
} from '@tanstack/query-core';
import { newIdempotencyKey } from 'nestjs-idempotency-client';
import type { Fault } from '../../test/support/http/wire/fault-proxy.js';
import { useServer } from '../../test/support/servers/use-server.js';
import { SamplePayments } from '../../test/e2e/client/sample-payments.js';
import { pay as payWithAxios } from './axios.js';
import { pay as payWithKy } from './ky.js';
import { OfflineQueue, type Disk } from './offline-queue.js';
import type { Api, Payment } from './payment.js';
import { payments } from './react-query.js';
import { sendOnce } from './send-once.js';

const server = useServer(() => SamplePayments.start('fastify', 5));
const api = (): Api => ({ url: `${server.proxy.url}/payments`, token: 'alice-demo-token' });

/** The pauses of our own client are drawn by the same function. */
beforeEach(() => void jest.spyOn(Math, 'random').mockReturnValue(0));
afterEach(() => void jest.restoreAllMocks());

const newPayment = (): Payment => ({ key: newIdempotencyKey(), amount: 4_999, currency: 'EUR' });

async function payWithFetch({ url, token }: Api, { key, ...payment }: Payment) {
  const { text } = await sendOnce(url, token, key, JSON.stringify(payment));
  return JSON.parse(text) as { id: string };
}

function payWithReactQuery(to: Api, payment: Payment) {
  return new MutationObserver(new QueryClient(), payments(to)).mutate(payment);
}

/** The charges that `work` causes. */
async function chargesOf<Result>(work: () => Promise<Result>) {
  const before = (await server.charges()).length;
  const result = await work();
  const charges = (await server.charges()).slice(before);
  return { result, charges: charges.map(({ id }) => id) };
}

const clients = [
  ['fetch', payWithFetch],
  ['axios', payWithAxios],
  ['ky', payWithKy],
  ['React Query', payWithReactQuery],
] as const;

const faults: readonly Fault[] = [
  'lose the answer',
  'break off the answer',
  'lose the request',
  'unavailable',
];

describe.each(clients)('A payment with %s', (_, pay) => {
  it.each(faults)('is charged once where the first two exchanges "%s"', async (fault) => {
    server.proxy.follow((exchange) => (exchange < 2 ? fault : 'none'));
    const { result, charges } = await chargesOf(() => pay(api(), newPayment()));
    expect([charges, server.proxy.exchanges]).toEqual([[result.id], 3]);
  });

  it('that is declined is not retried', async () => {
    server.proxy.follow(() => 'none');
    const declined = { ...newPayment(), amount: 4_020 };
    const { charges } = await chargesOf(() => pay(api(), declined).catch(() => undefined));
    expect([charges, server.proxy.exchanges]).toEqual([[], 1]);
  });

  it('is charged once where a second call has its key', async () => {
    server.proxy.follow(() => 'none');
    const payment = newPayment();
    const { charges } = await chargesOf(() =>
      Promise.all([pay(api(), payment), pay(api(), payment)]),
    );
    expect(charges).toHaveLength(1);
  });
});

describe('A client that makes its key in every try', () => {
  it('is charged for each of them', async () => {
    server.proxy.follow((exchange) => (exchange < 2 ? 'lose the answer' : 'none'));
    const careless = new QueryClient();
    const { charges } = await chargesOf(() =>
      new MutationObserver(careless, {
        mutationFn: () => {
          const { url, token } = api();
          return fetch(url, {
            method: 'POST',
            headers: {
              'content-type': 'application/json',
              authorization: `Bearer ${token}`,
              'idempotency-key': newIdempotencyKey(), // the mistake
            },
            body: JSON.stringify({ amount: 4_999, currency: 'EUR' }),
          });
        },
        retry: 5,
        retryDelay: 0,
      }).mutate(),
    );
    expect(charges).toHaveLength(3);
  });
});

describe('A mutation of React Query that was stored while offline', () => {
  afterEach(() => onlineManager.setOnline(true));

  it('is charged once, although two tabs resume it', async () => {
    server.proxy.follow((exchange) => (exchange === 0 ? 'lose the answer' : 'none'));
    onlineManager.setOnline(false);
    const first = new QueryClient();
    void new MutationObserver(first, payments(api())).mutate(newPayment());
    const stored = JSON.stringify(dehydrate(first));
    first.clear();

    onlineManager.setOnline(true);
    const { charges } = await chargesOf(() =>
      Promise.all(
        [1, 2].map(async () => {
          const tab = new QueryClient();
          tab.setMutationDefaults(['payments'], payments(api()));
          hydrate(tab, JSON.parse(stored));
          await tab.resumePausedMutations();
          expect(tab.getMutationCache().getAll()).toEqual([
            expect.objectContaining({ state: expect.objectContaining({ status: 'success' }) }),
          ]);
        }),
      ),
    );
    expect(charges).toHaveLength(1);
  });
});

describe('An offline queue', () => {
  /** What survives the app. */
  function newDisk(): Disk {
    let text = '[]';
    return {
      read: async () => JSON.parse(text),
      write: async (queue) => void (text = JSON.stringify(queue)),
    };
  }
  const order = { amount: 4_999, currency: 'EUR' };

  it('keeps an operation until its response is there, and charges once', async () => {
    const disk = newDisk();
    const done: string[] = [];
    const start = () =>
      new OfflineQueue(api(), disk, async (key, { status }) => void done.push(`${key}: ${status}`));
    const key = await start().add(order);

    const { charges } = await chargesOf(async () => {
      // Each try reaches the server, and no response comes through.
      server.proxy.follow(() => 'lose the answer');
      await start().flush();
      expect([done, (await disk.read()).length]).toEqual([[], 1]);
      server.proxy.follow(() => 'none');
      await start().flush();
    });
    expect([charges.length, done, await disk.read()]).toEqual([1, [`${key}: 201`], []]);
  });

  it('sends an operation again after a crash between response and disk, and charges once', async () => {
    const disk = newDisk();
    server.proxy.follow(() => 'none');
    let crashes = 1;
    const start = () =>
      new OfflineQueue(api(), disk, async () => {
        if (crashes-- > 0) throw new Error('planned: the app was closed');
      });
    await start().add(order);
    const { charges } = await chargesOf(async () => {
      await expect(start().flush()).rejects.toThrow('planned');
      await start().flush();
    });
    expect([charges.length, await disk.read()]).toEqual([1, []]);
  });
});
