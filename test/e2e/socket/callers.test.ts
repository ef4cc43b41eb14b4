import { afterEach, describe, expect, it } from '@jest/globals';
import type { ExecutionContext } from '@nestjs/common';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { Idempotent, type IdempotencyModuleOptions } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import type { Scenario } from '../../support/http/scenario.js';
import { InScenario, payloadOf } from './support/in-scenario.js';
import { KnownCallers } from './support/known-callers.js';
import { startSocketApp, type SocketApp } from './support/socket-app.js';
import { socketPlatforms, type SocketPlatform } from './support/socket-platforms.js';

/** A test client names the members to set on its connection in its query. */
interface Connection {
  data?: object;
  request?: { url?: string };
}

@WebSocketGateway()
class Payments extends KnownCallers {
  @SubscribeMessage('pay')
  @Idempotent()
  async pay(@InScenario() scenario: Scenario) {
    return { event: 'paid', data: await scenario.response() };
  }

  @SubscribeMessage('refund')
  @Idempotent()
  async refund(@InScenario() scenario: Scenario) {
    return { event: 'refunded', data: await scenario.response() };
  }
}

/** The query is JSON: the members to set on the connection. */
@WebSocketGateway()
class NotedCallers {
  handleConnection(client: Connection, request = client.request): void {
    const as = new URL(request?.url ?? '', 'http://localhost').searchParams.get('as');
    const { request: handshake, ...members } = JSON.parse(as ?? '{}') as Connection;
    Object.assign(client, members);
    if (handshake === undefined) return;
    if (client.request === undefined) client.request = handshake;
    else Object.assign(client.request, handshake);
  }

  @SubscribeMessage('pay')
  @Idempotent({ operation: 'noted.pay' })
  async pay(@InScenario() scenario: Scenario) {
    return { event: 'paid', data: await scenario.response() };
  }
}

describe.each(socketPlatforms)('the callers of a gateway on %s', (platform: SocketPlatform) => {
  let app: SocketApp;

  const start = async (
    options: Omit<IdempotencyModuleOptions, 'store'> = {},
    gateways: Parameters<typeof startSocketApp>[0]['gateways'] = [Payments],
  ) => {
    app = await startSocketApp({ platform, store: memoryStore(), gateways, options });
  };

  afterEach(() => app.close());

  it('get separate responses for the same key', async () => {
    await start();
    const scenario = app.scenario();
    const [alice, bob] = [await app.connect('alice'), await app.connect('bob')];
    expect(await alice.ask('pay', payloadOf(scenario))).toMatchObject({ data: { execution: 1 } });
    expect(await bob.ask('pay', payloadOf(scenario))).toMatchObject({ data: { execution: 2 } });
    expect(await alice.ask('pay', payloadOf(scenario))).toMatchObject({ data: { execution: 1 } });
    expect(scenario.executions).toBe(2);
  });

  it.each([
    ['user', { user: { id: 'eve' } }],
    ['user, by its subject', { user: { sub: 'eve' } }],
    ['user, by its id before its subject', { user: { id: 'eve', sub: 'mallory' } }],
    ['data.user', { data: { user: { id: 'eve' } } }],
    ['request.user', { request: { user: { id: 'eve' } } }],
    ['user, before data.user', { user: { id: 'eve' }, data: { user: { id: 'mallory' } } }],
  ])('are identified by client.%s', async (_, members) => {
    await start({}, [NotedCallers]);
    const scenario = app.scenario();
    const eve = await app.connect(JSON.stringify({ user: { id: 'eve' } }));
    await eve.ask('pay', payloadOf(scenario));
    const caller = await app.connect(JSON.stringify(members));
    expect(await caller.ask('pay', payloadOf(scenario))).toEqual({
      event: 'paid',
      data: { execution: 1 },
    });
  });

  it('are rejected when they cannot be determined', async () => {
    await start();
    const scenario = app.scenario();
    const stranger = await app.connect();
    expect(await stranger.ask('pay', payloadOf(scenario))).toMatchObject({
      event: 'exception',
      data: { status: 'error', code: 'idempotency_caller_unknown' },
    });
    expect(scenario.executions).toBe(0);
  });

  it('are the ones that the option "scope" returns', async () => {
    const scope = async (context: ExecutionContext) => [
      context.switchToWs().getData<{ tenant: string }>().tenant,
      'all',
    ];
    await start({
      caller: { scope },
      fingerprint: { exclude: ['tenant'] },
    });
    const scenario = app.scenario();
    const client = await app.connect();
    const ask = (tenant?: string) => client.ask('pay', payloadOf(scenario, { tenant }));
    expect(await ask('acme')).toMatchObject({ data: { execution: 1 } });
    expect(await ask('other')).toMatchObject({ data: { execution: 2 } });
    expect(await ask('acme')).toMatchObject({ data: { execution: 1 } });
    // A part is missing, which is the application's mistake and no client's.
    expect(await ask()).toMatchObject({ data: { message: 'Internal server error' } });
    expect(scenario.executions).toBe(2);
  });

  it("have one key for all operations with key.uniqueFor: 'principal'", async () => {
    await start({ key: { uniqueFor: 'principal' } });
    const scenario = app.scenario();
    const client = await app.connect('alice');
    await client.ask('pay', payloadOf(scenario));
    expect(await client.ask('refund', payloadOf(scenario))).toMatchObject({
      data: { code: 'idempotency_key_reused' },
    });
    expect(scenario.executions).toBe(1);
  });

  it('have one key for each operation by default', async () => {
    await start();
    const scenario = app.scenario();
    const client = await app.connect('alice');
    await client.ask('pay', payloadOf(scenario));
    expect(await client.ask('refund', payloadOf(scenario))).toEqual({
      event: 'refunded',
      data: { execution: 2 },
    });
  });
});
