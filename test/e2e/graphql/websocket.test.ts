import { once } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import type { Context } from 'graphql-ws';
import { memoryStore } from 'nestjs-idempotency/memory';
import { WebSocket, type RawData } from 'ws';
import { SCENARIO_HEADER, type Scenario } from '../../support/http/scenario.js';
import { useServer } from '../../support/servers/use-server.js';
import { codesIn, startGraphqlApp, type GraphqlResponse } from './support/graphql-app.js';
import { PaymentsResolver } from './support/payments.resolver.js';

/** A graphql-ws connection whose messages all seem to have the header. */
class GraphqlSocket {
  private asked = 0;

  private constructor(private readonly socket: WebSocket) {}

  static async open(port: number, { id, key }: Scenario): Promise<GraphqlSocket> {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/graphql`, 'graphql-transport-ws', {
      headers: { [SCENARIO_HEADER]: id, authorization: 'Bearer alice', 'idempotency-key': key },
    });
    await once(socket, 'open');
    const acknowledged = once(socket, 'message');
    socket.send(JSON.stringify({ type: 'connection_init' }));
    await acknowledged;
    return new GraphqlSocket(socket);
  }

  ask(query: string): Promise<GraphqlResponse> {
    this.asked += 1;
    const id = String(this.asked);
    return new Promise((resolve) => {
      const listen = (data: RawData) => {
        const message = JSON.parse((data as Buffer).toString()) as {
          readonly id: string;
          readonly type: string;
          readonly payload: GraphqlResponse;
        };
        if (message.id !== id || message.type !== 'next') return;
        this.socket.off('message', listen);
        resolve(message.payload);
      };
      this.socket.on('message', listen);
      this.socket.send(JSON.stringify({ id, type: 'subscribe', payload: { query } }));
    });
  }

  async close(): Promise<void> {
    const closed = once(this.socket, 'close');
    this.socket.close();
    await closed;
  }
}

interface Extra {
  readonly request?: object;
}

describe('a mutation over a WebSocket', () => {
  const app = useServer(() =>
    startGraphqlApp({
      store: memoryStore(),
      resolvers: [PaymentsResolver],
      driver: {
        subscriptions: { 'graphql-ws': true },
        // Many applications set this, so that guards find a request there.
        context: (context: Partial<Context<never, Extra>>) => ({ req: context.extra?.request }),
      },
    }),
  );

  it('reads its key from an argument, and replays', async () => {
    const scenario = app.scenario();
    const socket = await GraphqlSocket.open(app.port, scenario);
    const key = `idempotencyKey: "${scenario.key}"`;
    const document = `mutation {
      a: chargeByArgument(amount: 5, ${key}) { execution }
      b: chargeByInput(input: { amount: 5, ${key} }) { execution }
    }`;
    const first = await socket.ask(document);
    expect(first).toEqual({ data: { a: { execution: 1 }, b: { execution: 2 } } });
    expect(await socket.ask(document)).toEqual(first);
    expect(scenario.executions).toBe(2);
    await socket.close();
  });

  it('ignores a key header of the request that opened the connection', async () => {
    const scenario = app.scenario();
    const socket = await GraphqlSocket.open(app.port, scenario);
    const response = await socket.ask('mutation { charge(amount: 5) { execution } }');
    expect(codesIn(response)).toEqual({ charge: 'idempotency_key_missing' });
    expect(scenario.executions).toBe(0);
    await socket.close();
  });
});
