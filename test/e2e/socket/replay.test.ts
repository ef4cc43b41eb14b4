import { describe, expect, it } from '@jest/globals';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { concat, NEVER, Observable, of } from 'rxjs';
import { Idempotent } from 'nestjs-idempotency';
import { useStores } from '../../support/http/combinations.js';
import type { Scenario } from '../../support/http/scenario.js';
import { useServer } from '../../support/servers/use-server.js';
import { InScenario, payloadOf } from './support/in-scenario.js';
import { KnownCallers } from './support/known-callers.js';
import { startSocketApp } from './support/socket-app.js';
import { socketCombinations } from './support/socket-platforms.js';

interface Step {
  readonly event: string;
  readonly data: unknown;
}

@WebSocketGateway()
class Payments extends KnownCallers {
  @SubscribeMessage('pay')
  @Idempotent()
  async pay(@InScenario() scenario: Scenario) {
    return { event: 'paid', data: await scenario.response() };
  }

  /** Emits three events, the last one later than the others. */
  @SubscribeMessage('order')
  @Idempotent()
  order(@InScenario() scenario: Scenario): Observable<Step> {
    return new Observable((subscriber) => {
      void scenario.run().then((execution) => {
        subscriber.next({ event: 'accepted', data: execution });
        subscriber.next({ event: 'packed', data: [execution] });
        setImmediate(() => {
          subscriber.next({ event: 'sent', data: { execution } });
          subscriber.complete();
        });
      });
    });
  }

  @SubscribeMessage('promised-order')
  @Idempotent()
  async promisedOrder(@InScenario() scenario: Scenario): Promise<Observable<Step>> {
    const execution = await scenario.run();
    return of({ event: 'accepted', data: execution }, { event: 'sent', data: execution });
  }

  @SubscribeMessage('say-nothing')
  @Idempotent()
  async sayNothing(@InScenario() scenario: Scenario) {
    await scenario.run();
  }

  @SubscribeMessage('pay-with-or-without')
  @Idempotent({ key: { required: false } })
  async payWithOrWithout(@InScenario() scenario: Scenario) {
    return { event: 'paid', data: await scenario.response() };
  }

  @SubscribeMessage('pay-by-order')
  @Idempotent({ key: (context) => context.switchToWs().getData<{ order: string }>().order })
  async payByOrder(@InScenario() scenario: Scenario) {
    return { event: 'paid', data: await scenario.response() };
  }

  /** Unprotected if the client says so; then it never ends. */
  @SubscribeMessage('follow')
  @Idempotent({
    enabled: (context) => !context.switchToWs().getData<{ endless: boolean }>().endless,
  })
  async follow(@InScenario() scenario: Scenario, @MessageBody('endless') endless: boolean) {
    const first = of({ event: 'followed', data: await scenario.run() });
    return endless ? concat(first, NEVER) : first;
  }

  /** Events that were emitted before arrive before its response. */
  @SubscribeMessage('mark')
  mark(): Step {
    return { event: 'mark', data: null };
  }
}

const stores = useStores();

describe.each(socketCombinations)('a gateway on $platform with $store', ({ platform, store }) => {
  const app = useServer(() =>
    startSocketApp({ platform, store: stores.fresh(store), gateways: [Payments] }),
  );

  it('runs a handler once, and replays its response to every retry [P04]', async () => {
    const scenario = app.scenario();
    const client = await app.connect('alice');
    const first = await client.ask('pay', payloadOf(scenario));
    expect(first).toEqual({ event: 'paid', data: { execution: 1 } });
    expect(await client.ask('pay', payloadOf(scenario))).toEqual(first);
    expect(scenario.executions).toBe(1);
  });

  it('recognizes a client on another connection', async () => {
    const scenario = app.scenario();
    const before = await app.connect('alice');
    const first = await before.ask('pay', payloadOf(scenario));
    await before.close();
    const after = await app.connect('alice');
    expect(await after.ask('pay', payloadOf(scenario))).toEqual(first);
    expect(scenario.executions).toBe(1);
  });

  it.each(['order', 'promised-order'])(
    'replays all emissions of an Observable, in order: %s',
    async (event) => {
      const scenario = app.scenario();
      const client = await app.connect('alice');
      const story = async () => {
        client.send(event, payloadOf(scenario));
        const received: any[] = [];
        do received.push(await client.next());
        while (received.at(-1).event !== 'sent');
        return received;
      };
      const first = await story();
      expect(first.map((step) => step.event)).toEqual(
        event === 'order' ? ['accepted', 'packed', 'sent'] : ['accepted', 'sent'],
      );
      expect(await story()).toEqual(first);
      expect(await client.ask('mark', {})).toEqual({ event: 'mark', data: null });
      expect(scenario.executions).toBe(1);
    },
  );

  it('replays nothing when the handler emitted nothing', async () => {
    const scenario = app.scenario();
    const client = await app.connect('alice');
    const completed = app.next('completed');
    client.send('say-nothing', payloadOf(scenario));
    await completed;
    const replayed = app.next('replayed');
    client.send('say-nothing', payloadOf(scenario));
    await replayed;
    expect(await client.ask('mark', {})).toEqual({ event: 'mark', data: null });
    expect(scenario.executions).toBe(1);
  });

  it('runs one of many concurrent duplicates, and rejects the others', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const clients = await Promise.all(Array.from({ length: 5 }, () => app.connect('alice')));
    const [first, ...others] = clients as [(typeof clients)[0], ...typeof clients];
    first.send('pay', payloadOf(scenario));
    await scenario.started.reached(1);
    const rejections = await Promise.all(
      others.map((client) => client.ask('pay', payloadOf(scenario))),
    );
    for (const rejection of rejections) {
      expect(rejection).toEqual({
        event: 'exception',
        data: {
          status: 'error',
          code: 'idempotency_in_progress',
          message: expect.any(String),
          retryAfterMs: 1_000,
        },
      });
    }
    scenario.gate.open();
    expect(await first.next()).toEqual({ event: 'paid', data: { execution: 1 } });
    expect(scenario.executions).toBe(1);
  });

  it('rejects another payload under the same key, and keeps the first outcome', async () => {
    const scenario = app.scenario();
    const client = await app.connect('alice');
    const first = await client.ask('pay', payloadOf(scenario));
    const rejection = await client.ask('pay', payloadOf(scenario, { amount: 1300 }));
    expect(rejection).toMatchObject({
      event: 'exception',
      data: { status: 'error', code: 'idempotency_key_reused' },
    });
    expect(rejection.data).not.toHaveProperty('retryAfterMs');
    expect(await client.ask('pay', payloadOf(scenario))).toEqual(first);
    expect(scenario.executions).toBe(1);
  });

  it('treats an integer as the same key as its digits', async () => {
    const scenario = app.scenario();
    const client = await app.connect('alice');
    const key = Number.parseInt(scenario.key.slice(0, 8), 16);
    const first = await client.ask('pay', payloadOf(scenario, { idempotencyKey: key }));
    const second = await client.ask('pay', payloadOf(scenario, { idempotencyKey: String(key) }));
    expect(second).toEqual(first);
    expect(scenario.executions).toBe(1);
  });

  it.each([
    ['missing', { idempotencyKey: undefined }, 'idempotency_key_missing'],
    ['null', { idempotencyKey: null }, 'idempotency_key_missing'],
    ['empty', { idempotencyKey: '' }, 'idempotency_key_invalid'],
    ['too long', { idempotencyKey: 'k'.repeat(256) }, 'idempotency_key_invalid'],
    ['not an integer', { idempotencyKey: 1.5 }, 'idempotency_key_invalid'],
    ['too large an integer', { idempotencyKey: 2 ** 53 }, 'idempotency_key_invalid'],
    ['an array', { idempotencyKey: ['k'] }, 'idempotency_key_invalid'],
  ])('runs nothing when the key is %s', async (_, more, code) => {
    const scenario = app.scenario();
    const client = await app.connect('alice');
    expect(await client.ask('pay', payloadOf(scenario, more))).toMatchObject({
      event: 'exception',
      data: { status: 'error', code },
    });
    expect(scenario.executions).toBe(0);
  });

  it('finds no key in a payload without members', async () => {
    const client = await app.connect('alice');
    for (const payload of ['text', 7, null, ['idempotencyKey']]) {
      expect(await client.ask('pay', payload)).toMatchObject({
        event: 'exception',
        data: { code: 'idempotency_key_missing' },
      });
    }
  });

  it('runs every time when a key is optional and missing', async () => {
    const scenario = app.scenario();
    const client = await app.connect('alice');
    const without = payloadOf(scenario, { idempotencyKey: undefined });
    await client.ask('pay-with-or-without', without);
    await client.ask('pay-with-or-without', without);
    expect(scenario.executions).toBe(2);
    await client.ask('pay-with-or-without', payloadOf(scenario));
    await client.ask('pay-with-or-without', payloadOf(scenario));
    expect(scenario.executions).toBe(3);
  });

  it('does not affect a handler while "enabled" returns false, even if it never ends', async () => {
    const scenario = app.scenario();
    const client = await app.connect('alice');
    const followed = (data: number) => ({ event: 'followed', data });
    const endless = payloadOf(scenario, { endless: true });
    expect(await client.ask('follow', endless)).toEqual(followed(1));
    expect(await client.ask('follow', endless)).toEqual(followed(2));
    expect(await client.ask('follow', payloadOf(scenario))).toEqual(followed(3));
    expect(await client.ask('follow', payloadOf(scenario))).toEqual(followed(3));
  });

  it('uses the key that the option "key" returns, and compares the whole payload', async () => {
    const scenario = app.scenario();
    const client = await app.connect('alice');
    const order = payloadOf(scenario, { order: scenario.key, idempotencyKey: undefined });
    const first = await client.ask('pay-by-order', order);
    expect(await client.ask('pay-by-order', order)).toEqual(first);
    expect(await client.ask('pay-by-order', { ...order, idempotencyKey: 'any' })).toMatchObject({
      data: { code: 'idempotency_key_reused' },
    });
    expect(scenario.executions).toBe(1);
  });

  it('rejects content that cannot be compared', async () => {
    const scenario = app.scenario();
    const client = await app.connect('alice');
    let deep: object = {};
    for (let level = 0; level < 1_001; level += 1) deep = { deep };
    expect(await client.ask('pay', payloadOf(scenario, { deep }))).toMatchObject({
      event: 'exception',
      data: { status: 'error', code: 'idempotency_content_invalid' },
    });
    expect(scenario.executions).toBe(0);
  });
});
