import { createHmac, randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { memoryStore, type MemoryIdempotencyStore } from 'nestjs-idempotency/memory';
import { recordKey } from 'nestjs-idempotency/store';
import { platforms } from '../../test/support/http/combinations.js';
import { expectProblem, expectReplay } from '../../test/support/http/expectations.js';
import { startApp, type TestApp } from '../../test/support/http/start-app.js';
import { Gate } from '../../test/support/waiting/gate.js';
import { Tally } from '../../test/support/waiting/tally.js';
import { Subscriptions } from './subscriptions.js';
import type { WebhookEvent } from './webhook-event.js';
import { WEBHOOK_SECRET } from './webhook-signature.guard.js';
import { WebhooksController } from './webhooks.controller.js';

const SECRET = 'whsec_test';

@Injectable()
class ListedSubscriptions extends Subscriptions {
  readonly extended: string[] = [];
  failures = 0;
  readonly begun = new Tally();
  readonly gate = new Gate();

  override async extend({ subscription }: WebhookEvent['data']): Promise<void> {
    this.begun.add();
    await this.gate.pass();
    if (this.failures-- > 0) throw new Error('planned: the database is down');
    this.extended.push(subscription);
  }
}

/** A header as the provider sends it. */
function signature(body: string, secret = SECRET, seconds = Math.floor(Date.now() / 1000)) {
  const digest = createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex');
  return `t=${seconds},v1=${digest}`;
}

describe.each(platforms)('A webhook on %s', (platform) => {
  let app: TestApp;
  let subscriptions: ListedSubscriptions;
  let store: MemoryIdempotencyStore;

  beforeEach(async () => {
    store = memoryStore();
    app = await startApp({
      platform,
      rawBody: true,
      guard: { canActivate: () => true },
      controllers: [WebhooksController],
      providers: [
        { provide: Subscriptions, useClass: ListedSubscriptions },
        { provide: WEBHOOK_SECRET, useValue: SECRET },
      ],
      store,
    });
    subscriptions = app.nest.get(Subscriptions);
  });
  afterEach(() => app.close());

  const newEvent = (more: object = {}) => ({
    id: `evt_${randomUUID()}`,
    type: 'invoice.paid',
    data: { subscription: 'sub_1' },
    ...more,
  });

  function start(event: object, signed = signature(JSON.stringify(event))) {
    return app.scenario().start('POST', '/webhooks/payments', {
      body: JSON.stringify(event),
      type: 'application/json',
      key: null,
      as: null,
      headers: [['Webhook-Signature', signed]],
    });
  }

  const deliver = (...args: Parameters<typeof start>) => start(...args).response;

  it('is handled once; a later delivery gets the same 200', async () => {
    const event = newEvent({ pending_webhooks: 2 });
    const first = await deliver(event);
    expect(first).toMatchObject({ status: 200, json: { received: true } });
    expectReplay(await deliver(event), first);
    expectReplay(await deliver({ ...event, pending_webhooks: 1 }), first);
    expect(subscriptions.extended).toEqual(['sub_1']);
  });

  it.each([
    ['another secret', (body: string) => signature(body, 'whsec_other')],
    ['another body', (body: string) => signature(`${body} `)],
    ['an old time', (body: string) => signature(body, SECRET, Date.now() / 1000 - 3_600)],
    ['nothing', (_body: string) => ''],
  ])('that is signed with %s gets 401, and leaves no record', async (_, sign) => {
    const event = newEvent();
    expect(await deliver(event, sign(JSON.stringify(event)))).toMatchObject({ status: 401 });
    const request = { scope: ['payments-provider'], operation: 'webhooks.payments', key: event.id };
    expect(await store.inspect(recordKey(request))).toBeUndefined();
    expect(await deliver(event)).toMatchObject({ status: 200, replayed: false });
    expect(subscriptions.extended).toEqual(['sub_1']);
  });

  it('whose handling failed gets 500, and is handled when it is delivered again', async () => {
    subscriptions.failures = 1;
    const event = newEvent();
    expect(await deliver(event)).toMatchObject({ status: 500 });
    expect(await deliver(event)).toMatchObject({ status: 200, replayed: false });
    expect(subscriptions.extended).toEqual(['sub_1']);
  });

  it('that is delivered while it is handled gets 409', async () => {
    subscriptions.gate.close();
    const event = newEvent();
    const first = start(event);
    await subscriptions.begun.reached(1);
    expectProblem(await deliver(event), 'in-progress');
    subscriptions.gate.open();
    const handled = await first.response;
    expectReplay(await deliver(event), handled);
    expect(subscriptions.extended).toHaveLength(1);
  });

  it('without an id gets 400', async () => {
    expectProblem(await deliver({ ...newEvent(), id: undefined }), 'key-missing');
  });
});
