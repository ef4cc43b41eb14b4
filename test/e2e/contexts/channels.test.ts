import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { HttpException } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  IdempotencyMeter,
  IdempotencyService,
  type IdempotencyEvent,
  type IdempotencyOptions,
  type IdempotencyStore,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { FaultyStore, type Fault } from '../../support/stores/faulty-store.js';
import { platforms } from '../../support/http/combinations.js';
import { callingApp } from '../../support/nest/calling-app.js';
import { TalkingProcess } from '../../support/processes/talking-process.js';
import { useServer } from '../../support/servers/use-server.js';
import { Gate } from '../../support/waiting/gate.js';
import { until } from '../../support/waiting/until.js';
import { startHybridApp, type ContextName, type HybridApp } from './support/hybrid-app.js';

const HANDLERS: Readonly<Record<ContextName, string>> = {
  http: 'Route.pay',
  graphql: 'Mutations.pay',
  rpc: 'Consumer.pay',
  ws: 'Gateway.pay',
};

type Message = Readonly<Record<string, unknown>>;

/** What arrives on channels, until the test has ended. */
const stops: (() => void)[] = [];
function listen<Received = Message>(...names: readonly string[]): Received[] {
  const received: Received[] = [];
  for (const name of names) {
    const take = (message: unknown) => void received.push(message as Received);
    subscribe(name, take);
    stops.push(() => void unsubscribe(name, take));
  }
  return received;
}

const NEST = ['replayed', 'rejected', 'lock-lost'].map((name) => `nestjs:idempotency:${name}`);

let work: () => Promise<number> | number;
let runs = 0;
beforeEach(() => {
  work = () => (runs += 1);
});
function stopListening(): void {
  for (const stop of stops.splice(0)) stop();
}
afterEach(() => {
  stopListening();
  jest.restoreAllMocks();
});

let keys = 0;
const newKey = () => `secret-key-${(keys += 1)}`;
const DIGEST = /^[\w-]{43}$/;

const key = {
  from: {
    http: { payload: 'key' },
    graphql: { arg: 'input.key' },
    rpc: { payload: 'key' },
    ws: { payload: 'key' },
  },
} as const;

const start = (platform: (typeof platforms)[number], store: IdempotencyStore = memoryStore()) =>
  startHybridApp({
    platform,
    work: () => work(),
    options: { store, key, caller: { anonymous: 'shared' }, duplicates: 'reject' },
  });

async function eachOf(
  app: HybridApp,
  test: (context: ContextName, ask: (content: object) => Promise<unknown>) => Promise<void>,
): Promise<void> {
  for (const context of app.contexts) {
    const headers = { authorization: 'alice-the-caller' };
    await test(context, (content) => app.ask(context, { headers, content: { ...content } }));
    stopListening();
  }
}

describe.each(platforms)('the channels of Nest’s packages on %s', (platform) => {
  const app = useServer(() => start(platform));

  it('have replays, with the status that the client gets', () =>
    eachOf(app, async (context, ask) => {
      const received = listen(...NEST);
      const content = { key: newKey() };
      expect(await ask(content)).toEqual(await ask(content));
      expect(received).toEqual([
        {
          type: 'replayed',
          context,
          handler: HANDLERS[context],
          key: expect.stringMatching(DIGEST),
          status: context === 'http' ? 201 : 200,
        },
      ]);
      expect(JSON.stringify(received)).not.toMatch(/secret-key|alice-the-caller/);
    }));

  it('have rejections, with codes and statuses that their listeners know', () =>
    eachOf(app, async (context, ask) => {
      const received = listen(...NEST);
      const begun = listen('nestjs-idempotency:acquired');
      const gate = Gate.closed();
      work = () => gate.pass().then(() => 1);
      const content = { key: newKey() };
      const first = ask(content);
      await until(() => begun.length === 1);
      await ask(content);
      await ask({ ...content, amount: 2 });
      await ask({ amount: 2 });
      await ask({ key: ['a list'] });
      gate.open();
      await first;
      const handler = HANDLERS[context];
      const withKey = { key: expect.stringMatching(DIGEST) };
      const rejection = { type: 'rejected', context, handler };
      expect(received).toEqual([
        { ...rejection, ...withKey, code: 'IDEMPOTENCY_KEY_IN_USE', status: 409 },
        { ...rejection, ...withKey, code: 'IDEMPOTENCY_KEY_REUSED', status: 422 },
        { ...rejection, code: 'IDEMPOTENCY_KEY_REQUIRED', status: 400 },
        { ...rejection, code: 'IDEMPOTENCY_KEY_INVALID', status: 400 },
      ]);
      expect(JSON.stringify(received)).not.toMatch(/secret-key|alice-the-caller|a list/);
    }));

  it('do without what nobody listens to: events of ordinary traffic are not even made', () =>
    eachOf(app, async (_, ask) => {
      const count = jest.spyOn(app.nest.get(IdempotencyMeter), 'count');
      const made = () => count.mock.calls.splice(0).map(([{ type }]) => type);
      const exchange = async () => {
        const content = { key: newKey() };
        await ask(content);
        await ask(content);
        await ask({ ...content, amount: 2 });
      };
      await exchange();
      expect(made()).toEqual([]);
      const replays = listen('nestjs:idempotency:replayed');
      await exchange();
      expect(made()).toEqual(['replayed']);
      expect(replays).toHaveLength(1);
      listen('nestjs:idempotency:lock-lost', 'nestjs-idempotency:acquired');
      await exchange();
      expect(made()).toEqual(['acquired', 'ended', 'replayed']);
    }));
});

describe('the status of a replay', () => {
  const keeping = (outcome: IdempotencyOptions['outcome']) => () =>
    startHybridApp({
      platform: 'express',
      work: () => work(),
      options: { store: memoryStore(), key, caller: { anonymous: 'shared' } },
      own: { outcome: outcome! },
    });
  const withFailures = useServer(keeping(() => true));
  const bare = useServer(keeping({ storeBody: false }));
  const statusIn = async (ask: (content: object) => Promise<unknown>) => {
    const received = listen('nestjs:idempotency:replayed');
    const content = { key: newKey() };
    await ask(content);
    await ask(content);
    return received.map(({ status }) => status);
  };

  it('is 409 where the value was not kept', () =>
    eachOf(bare, async (_, ask) => {
      expect(await statusIn(ask)).toEqual([409]);
    }));

  it('is that of a kept failure, or 500', () =>
    eachOf(withFailures, async (context, ask) => {
      work = () => Promise.reject(new HttpException('planned', 402));
      expect(await statusIn(ask)).toEqual([context === 'http' ? 402 : 500]);
    }));
});

describe('a lost lock', () => {
  const store = new FaultyStore(memoryStore());
  const app = useServer(() => start('express', store));
  afterEach(() => {
    store.heal();
  });
  const lost: Fault = () => Promise.resolve({ kind: 'lost', state: 'completed' } as never);
  const ofPhase = (context: ContextName, phase: string) => ({
    type: 'lock-lost',
    context,
    handler: HANDLERS[context],
    key: expect.stringMatching(DIGEST),
    phase,
  });

  it('is published when the outcome is found not to be stored', () =>
    eachOf(app, async (context, ask) => {
      const received = listen(...NEST);
      store.next('complete', lost);
      await ask({ key: newKey() });
      expect(received).toContainEqual(ofPhase(context, 'complete'));
      expect(received.filter(({ type }) => type === 'lock-lost')).toHaveLength(1);
    }));

  it('is published when the key could not be released', () =>
    eachOf(app, async (context, ask) => {
      const received = listen(...NEST);
      store.next('release', lost);
      work = () => Promise.reject(new Error('planned'));
      await ask({ key: newKey() });
      expect(received).toEqual([ofPhase(context, 'release')]);
    }));

  it('is not published for an attempt whose outcome is stored, or whose key is free', () =>
    eachOf(app, async (_, ask) => {
      const received = listen('nestjs:idempotency:lock-lost');
      await ask({ key: newKey() });
      work = () => Promise.reject(new Error('planned'));
      await ask({ key: newKey() });
      expect(received).toEqual([]);
    }));
});

describe('a lock that is lost while the handler runs', () => {
  const store = new FaultyStore(memoryStore());
  const app = useServer(() =>
    startHybridApp({
      platform: 'express',
      work: () => work(),
      options: { store, key, caller: { anonymous: 'shared' }, lease: { duration: '1s' } },
    }),
  );
  const lost: Fault = () => Promise.resolve({ kind: 'lost', state: 'completed' } as never);

  it('is published then, and once, whatever follows', () =>
    eachOf(app, async (context, ask) => {
      const received = listen('nestjs:idempotency:lock-lost');
      const events = listen<IdempotencyEvent>(
        'nestjs-idempotency:lease_lost',
        'nestjs-idempotency:ended',
      );
      store.always(lost, 'extend', 'complete');
      const gate = Gate.closed();
      work = () => gate.pass().then(() => 1);
      const asked = ask({ key: newKey() });
      await until(() => received.length === 1);
      gate.open();
      await asked;
      store.heal();
      expect(events.at(0)).toMatchObject({ type: 'lease_lost' });
      expect(events.at(-1)).toMatchObject({ type: 'ended', how: 'diverged' });
      expect(received).toEqual([
        {
          type: 'lock-lost',
          context,
          handler: HANDLERS[context],
          key: expect.stringMatching(DIGEST),
          phase: 'extend',
        },
      ]);
    }));
});

describe('the package’s own channels', () => {
  const app = useServer(() => start('express'));

  it('have each event as its subscribers get it', () =>
    eachOf(app, async (context, ask) => {
      const types = ['acquired', 'completed', 'ended', 'replayed', 'invalid_request'];
      const received = listen<IdempotencyEvent>(
        ...types.map((type) => `nestjs-idempotency:${type}`),
      );
      const content = { key: newKey() };
      await ask(content);
      await ask(content);
      await ask({});
      expect(received.map(({ type }) => type)).toEqual(types);
      const operation = context === 'rpc' ? 'billing.pay' : HANDLERS[context];
      for (const event of received) expect(event).toMatchObject({ operation });
      expect(received[3]).toMatchObject({ status: context === 'http' ? 201 : 200 });
    }));
});

it('a call has no context of Nest', async () => {
  const { nest } = await callingApp({}, { store: memoryStore() });
  const received = listen(...NEST);
  const calls = nest.get(IdempotencyService, { strict: false });
  const call = { operation: 'refund', key: newKey(), scope: 'alice' };
  await calls.run(call, () => 1);
  await calls.run(call, () => 2);
  await nest.close();
  expect(received).toEqual([
    {
      type: 'replayed',
      context: 'call',
      handler: 'refund',
      key: expect.stringMatching(DIGEST),
      status: 200,
    },
  ]);
});

it('a subscriber that throws does not reach the request: Node reports its error', async () => {
  const child = new TalkingProcess<object>(new URL('throwing-subscriber.ts', import.meta.url), {});
  try {
    for (const platform of platforms) {
      expect(await child.next()).toEqual({
        platform,
        statuses: [201, 201, 422],
        bodies: [{ run: 1 }, { run: 1 }, expect.objectContaining({ status: 422 })],
        uncaught: expect.arrayContaining(['thrown by replayed', 'thrown by rejected']),
      });
    }
  } finally {
    await child.kill();
  }
});
