// A new project has these as globals.
import { afterAll, beforeAll, expect, it } from '@jest/globals';
// #region spec
import { createHmac } from 'node:crypto';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { IdempotencyStore } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { AppModule, Payments, Provider, setUp } from './app.module.js';

const charges: string[] = [];
const provider = { charge: (_: unknown, key: string) => ({ id: `c${charges.push(key)}` }) };
let app: INestApplication;

beforeAll(async () => {
  process.env.WEBHOOK_SECRET = 'secret';
  const builder = Test.createTestingModule({ imports: [AppModule] });
  builder.overrideProvider(IdempotencyStore).useValue(memoryStore());
  builder.overrideProvider(Provider).useValue(provider);
  app = (await builder.compile()).createNestApplication({ rawBody: true });
  setUp(app);
  await app.listen(0, '127.0.0.1');
});
afterAll(() => app.close());

async function send(path: string, headers = {}, body?: Blob | FormData) {
  const response = await fetch(`${await app.getUrl()}/${path}`, {
    ...(body && { method: 'POST', body }),
    headers: { authorization: 'Bearer alices-token', ...headers },
  });
  return [response.status, await response.text(), response.headers.get('idempotent-replayed')];
}

async function sendTwice(path: string, headers: object, body: Blob | FormData) {
  const [status, text] = await send(path, headers, body);
  expect(await send(path, headers, body)).toEqual([status, text, 'true']);
  return text;
}

const json = (text: string) => new Blob([text], { type: 'application/json' });

it('charges, takes a file, makes a large invoice and handles a signed event once', async () => {
  const key = { 'idempotency-key': 'one' };
  await sendTwice('payments', key, json('{"amount":1200,"card":"4242"}'));
  expect(charges).toHaveLength(1);
  const form = new FormData();
  form.set('receipt', new Blob(['scan']), 'receipt.png');
  expect(await sendTwice('payments/c1/receipts', key, form)).toBe('{"receipts":1}');
  expect(await sendTwice('payments/c1/invoices', key, json('{}'))).toHaveLength(4_000_000);
  const event = '{"id":"e1","payment":"c1"}';
  expect(await send('webhooks', { 'webhook-signature': 'ff' }, json(event))).toContain(403);
  const signature = createHmac('sha256', 'secret').update(event).digest('hex');
  await sendTwice('webhooks', { 'webhook-signature': signature }, json(event));
  expect(app.get(Payments).settled).toEqual(['c1']);
});

it('is ready, counted and documented, and shows its records to staff', async () => {
  expect(await send('ready')).toContain(200);
  expect((await send('metrics'))[1]).toMatch(/result="replayed"\} 1$/m);
  expect((await send('docs-json'))[1]).toContain('"Idempotency-Key"');
  expect(await send('console', { authorization: 'Bearer olgas-token' })).toContain(200);
  expect(await send('console')).toContain(403);
});
// #endregion
