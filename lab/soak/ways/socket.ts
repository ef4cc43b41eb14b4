import { setTimeout as delay } from 'node:timers/promises';
import { UseInterceptors } from '@nestjs/common';
import { IoAdapter } from '@nestjs/platform-socket.io';
import { WsAdapter } from '@nestjs/platform-ws';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { Idempotent } from 'nestjs-idempotency';
import {
  connectClient,
  type SocketPlatform,
} from '../../../test/e2e/socket/support/socket-client.js';
import { MOST_AT_ONCE } from '../load.js';
import { addOperations, inner, optionsOf, work, type Order } from '../operations.js';
import { Pool } from '../pool.js';
import type { Way, WaySettings } from '../setup.js';
import { listen } from './start.js';

const EARLY = { event: 'early', data: 'early' };

@WebSocketGateway()
class OrdersGateway {}

addOperations(
  OrdersGateway,
  (kind) =>
    async ({ amount }: Order) => ({ event: 'done', data: await work({ kind, amount }) }),
  (kind) => [
    [MessageBody()],
    Idempotent(optionsOf(kind)),
    ...(kind === 'inner' ? [UseInterceptors(inner(EARLY))] : []),
    SubscribeMessage(kind),
  ],
);

export async function overSockets(settings: WaySettings, platform: SocketPlatform): Promise<Way> {
  const app = await listen(
    settings,
    { providers: [OrdersGateway] },
    {
      early: EARLY,
      configure: (nest) =>
        nest.useWebSocketAdapter(platform === 'ws' ? new WsAdapter(nest) : new IoAdapter(nest)),
    },
  );
  const clients = await Pool.of(MOST_AT_ONCE, () => connectClient(platform, app.port));
  const payloadOf = ({ key, amount }: Order) => ({ idempotencyKey: key, amount });
  return {
    ...app,
    send: (order) => clients.use((client) => client.ask(order.kind, payloadOf(order))),
    sendAndLeave: async (order, afterMs) => {
      const client = await connectClient(platform, app.port);
      client.send(order.kind, payloadOf(order));
      await delay(afterMs);
      await client.close();
    },
  };
}
