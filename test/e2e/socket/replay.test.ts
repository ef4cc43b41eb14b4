import { randomBytes } from 'node:crypto';
import { MessageBody, SubscribeMessage, WebSocketGateway, WsException } from '@nestjs/websockets';
import { Body, Controller, ParseIntPipe, Post } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { concat, NEVER, Observable, of, throwError } from 'rxjs';
import { useStores } from '../../support/http/combinations.js';
import { InScenario as InHttpScenario, type Scenario } from '../../support/http/scenario.js';
import { afterTest } from '../../support/jest/after-test.js';
import { useServer } from '../../support/servers/use-server.js';
import { folderOfBlobs } from '../../support/stores/folder-of-blobs.js';
import { expectReplay } from '../../support/http/expectations.js';
import {
  InScenario,
  KnownCallers,
  payloadOf,
  socketCombinations,
  socketPlatforms,
  startSocketApp,
} from './support/socket-app.js';

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

  @SubscribeMessage('large')
  @Idempotent()
  async large(@InScenario() scenario: Scenario) {
    await scenario.run();
    return { event: 'large', data: randomBytes(100_000).toString('hex') };
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

class Declined extends WsException {}

/** Fails as the scenario's plan says, and reports its execution. */
async function follow(scenario: Scenario) {
  const execution = await scenario.run();
  switch (scenario.planned(execution)) {
    case 'decline':
      throw new Declined({ status: 'error', code: 'card_declined', execution });
    case 'decline in words':
      throw new WsException(`declined, execution ${execution}`);
    case 'break':
      throw new Error(`execution ${execution}`);
    default:
      return { event: 'paid', data: { execution } };
  }
}

@WebSocketGateway()
class FailingPayments extends KnownCallers {
  @SubscribeMessage('pay-as-planned')
  @Idempotent()
  pay(@InScenario() scenario: Scenario) {
    return follow(scenario);
  }

  @SubscribeMessage('pay-once-and-for-all')
  @Idempotent({ outcome: () => true })
  payOnceAndForAll(@InScenario() scenario: Scenario) {
    return follow(scenario);
  }

  @SubscribeMessage('pay-unless-declined')
  @Idempotent({ outcome: ({ error }) => error === undefined || error instanceof WsException })
  payUnlessDeclined(@InScenario() scenario: Scenario) {
    return follow(scenario);
  }

  @SubscribeMessage('begin-and-fail')
  @Idempotent()
  async beginAndFail(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    return concat(
      of({ event: 'begun', data: execution }),
      scenario.planned(execution) === 'break'
        ? throwError(() => new WsException({ execution }))
        : of({ event: 'paid', data: execution }),
    );
  }

  @SubscribeMessage('pay-a-number')
  @Idempotent({ outcome: () => true })
  async payANumber(
    @InScenario() scenario: Scenario,
    @MessageBody('count', ParseIntPipe) count: number,
  ) {
    await scenario.run();
    return { event: 'paid', data: count };
  }
}

@Controller('payments')
class PaymentsController {
  @Post()
  @Idempotent()
  pay(@InHttpScenario() scenario: Scenario, @Body() _: object) {
    return scenario.response();
  }
}

const stores = useStores();

describe.each(socketCombinations)('a gateway on $platform with $store', ({ platform, store }) => {
  const app = useServer(() =>
    startSocketApp({
      platform,
      store: stores.fresh(store),
      controllers: [PaymentsController],
      gateways: [Payments, FailingPayments],
    }),
  );

  it('runs a handler once, and replays its response to every retry [P04]', async () => {
    const scenario = app.scenario();
    const client = await app.connect('alice');
    const first = await client.ask('pay', payloadOf(scenario));
    expect(first).toEqual({ event: 'paid', data: { execution: 1 } });
    expect(await client.ask('pay', payloadOf(scenario))).toEqual(first);
    expect(scenario.executions).toBe(1);
  });

  it('replays all emissions of an Observable, in order', async () => {
    const scenario = app.scenario();
    const client = await app.connect('alice');
    const story = async () => {
      client.send('order', payloadOf(scenario));
      return [await client.next(), await client.next(), await client.next()];
    };
    const first = await story();
    expect(first.map((step) => step.event)).toEqual(['accepted', 'packed', 'sent']);
    expect(await story()).toEqual(first);
    expect(await client.ask('mark', {})).toEqual({ event: 'mark', data: null });
    expect(scenario.executions).toBe(1);
  });

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

  it('rejects a duplicate of a message in progress, with the time to retry after', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const [first, other] = [await app.connect('alice'), await app.connect('alice')];
    first.send('pay', payloadOf(scenario));
    await scenario.started.reached(1);
    expect(await other.ask('pay', payloadOf(scenario))).toEqual({
      event: 'exception',
      data: {
        status: 'error',
        code: 'idempotency_in_progress',
        message: expect.any(String),
        retryAfterMs: 1_000,
      },
    });
    scenario.gate.open();
    expect(await first.next()).toEqual({ event: 'paid', data: { execution: 1 } });
    expect(scenario.executions).toBe(1);
  });

  it('has outcomes of its own beside a route, also under one key', async () => {
    const scenario = app.scenario();
    const client = await app.connect('alice');
    const response = await scenario.post('/payments', { json: { amount: 1200 } });
    expect(response).toMatchObject({ status: 201, json: { execution: 1 } });
    const paid = await client.ask('pay', payloadOf(scenario));
    expect(paid).toEqual({ event: 'paid', data: { execution: 2 } });

    expectReplay(await scenario.post('/payments', { json: { amount: 1200 } }), response);
    expect(await client.ask('pay', payloadOf(scenario))).toEqual(paid);
    expect(scenario.executions).toBe(2);
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

  let tooDeep: object = {};
  for (let level = 0; level < 1_001; level += 1) tooDeep = { tooDeep };

  it.each([
    ['the key is missing', { idempotencyKey: undefined }, 'idempotency_key_missing'],
    ['the key is null', { idempotencyKey: null }, 'idempotency_key_missing'],
    ['the key is empty', { idempotencyKey: '' }, 'idempotency_key_invalid'],
    ['the key is too long', { idempotencyKey: 'k'.repeat(256) }, 'idempotency_key_invalid'],
    ['the key is too large an integer', { idempotencyKey: 2 ** 53 }, 'idempotency_key_invalid'],
    ['the key is an array', { idempotencyKey: ['k'] }, 'idempotency_key_invalid'],
    ['its content cannot be compared', { tooDeep }, 'idempotency_content_invalid'],
  ])('runs nothing when %s', async (_, more, code) => {
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

  describe('whose handler fails', () => {
    it('runs again at once, because failures are not kept by default', async () => {
      const scenario = app.scenario();
      scenario.plan = ['decline', 'break'];
      const client = await app.connect('alice');
      const ask = () => client.ask('pay-as-planned', payloadOf(scenario));
      expect(await ask()).toEqual({
        event: 'exception',
        data: { status: 'error', code: 'card_declined', execution: 1 },
      });
      expect(await ask()).toMatchObject({
        event: 'exception',
        data: { status: 'error', message: 'Internal server error' },
      });
      expect(await ask()).toEqual({ event: 'paid', data: { execution: 3 } });
      expect(await ask()).toEqual({ event: 'paid', data: { execution: 3 } });
      expect(scenario.executions).toBe(3);
    });

    it.each<[string, string, string, object]>([
      [
        'the content of a WsException',
        'decline',
        'pay-unless-declined',
        { status: 'error', code: 'card_declined', execution: 1 },
      ],
      [
        'a message that was thrown as a string',
        'decline in words',
        'pay-unless-declined',
        expect.objectContaining({ status: 'error', message: 'declined, execution 1' }),
      ],
      [
        'only the generic message of an internal error',
        'break',
        'pay-once-and-for-all',
        expect.objectContaining({ status: 'error', message: 'Internal server error' }),
      ],
    ])('replays, where it is kept, %s', async (_, plan, event, data) => {
      const scenario = app.scenario();
      scenario.plan = [plan];
      const client = await app.connect('alice');
      const first = await client.ask(event, payloadOf(scenario));
      expect(first.data).toEqual(data);
      expect(await client.ask(event, payloadOf(scenario))).toEqual(first);
      expect(scenario.executions).toBe(1);
    });

    it('emits nothing when its Observable fails halfway', async () => {
      const scenario = app.scenario();
      scenario.plan = ['break'];
      const client = await app.connect('alice');
      expect(await client.ask('begin-and-fail', payloadOf(scenario))).toEqual({
        event: 'exception',
        data: { execution: 1 },
      });
      expect(await client.ask('begin-and-fail', payloadOf(scenario))).toEqual({
        event: 'begun',
        data: 2,
      });
      expect(await client.next()).toEqual({ event: 'paid', data: 2 });
    });

    it('leaves the key to the corrected message when a pipe has rejected the first one', async () => {
      const scenario = app.scenario();
      const client = await app.connect('alice');
      const wrong = await client.ask('pay-a-number', payloadOf(scenario, { count: 'many' }));
      expect(wrong).toMatchObject({ event: 'exception' });
      expect(await client.ask('pay-a-number', payloadOf(scenario, { count: '3' }))).toEqual({
        event: 'paid',
        data: 3,
      });
      expect(scenario.executions).toBe(1);
    });
  });
});

it.each(socketPlatforms)(
  'a value with more than outcome.maxBytes is in the blob store, and replayed from there over %s',
  async (platform) => {
    const blobs = await folderOfBlobs();
    const app = await startSocketApp({
      platform,
      store: memoryStore(),
      gateways: [Payments],
      options: { blobs: blobs.store, outcome: { maxBytes: 50_000 } },
    });
    afterTest(() => app.close());
    const scenario = app.scenario();
    const client = await app.connect('alice');
    const first = await client.ask('large', payloadOf(scenario));
    expect(first.data).toHaveLength(200_000);
    expect(await blobs.names()).toHaveLength(1);
    expect(await client.ask('large', payloadOf(scenario))).toEqual(first);
    await blobs.clear();
    expect(await client.ask('large', payloadOf(scenario))).toMatchObject({
      event: 'exception',
      data: { code: 'idempotency_response_not_kept' },
    });
    expect(scenario.executions).toBe(1);
  },
);
