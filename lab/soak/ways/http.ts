import { setTimeout as delay } from 'node:timers/promises';
import { Body, Controller, Post, UseInterceptors } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import type { Platform } from '../../../test/support/http/combinations.js';
import {
  KeepAliveConnection,
  sendRaw,
  type RawRequest,
} from '../../../test/support/http/wire/raw-client.js';
import { MOST_AT_ONCE } from '../load.js';
import { addOperations, inner, optionsOf, work, type Order } from '../operations.js';
import { Pool } from '../pool.js';
import type { Way, WaySettings } from '../setup.js';
import { listen, type ListeningApp } from './start.js';

@Controller()
class OrdersController {}

addOperations(
  OrdersController,
  (kind) =>
    ({ amount }: Order) =>
      work({ kind, amount }),
  (kind) => [
    [Body()],
    Idempotent(optionsOf(kind)),
    ...(kind === 'inner' ? [UseInterceptors(inner('early'))] : []),
    Post(kind),
  ],
);

export async function overHttp(settings: WaySettings, platform: Platform): Promise<Way> {
  const app = await listen(settings, { controllers: [OrdersController] }, { platform });
  return overConnections(app, ({ kind, key, amount }) => request(`/${kind}`, { amount }, key));
}

/** Sends each request on a kept connection, and those whose clients leave on separate ones. */
export async function overConnections(
  app: ListeningApp,
  requestOf: (order: Order) => RawRequest,
): Promise<Way> {
  const connections = await Pool.of(MOST_AT_ONCE, () => new KeepAliveConnection(app.port));
  return {
    ...app,
    send: (order) => connections.use((connection) => connection.exchange(requestOf(order))),
    sendAndLeave: async (order, afterMs) => {
      const pending = sendRaw(app.port, requestOf(order));
      await delay(afterMs);
      pending.abandon();
    },
  };
}

export function request(path: string, body: object, key?: string): RawRequest {
  const type = ['Content-Type', 'application/json'] as const;
  return {
    method: 'POST',
    path,
    lines: key === undefined ? [type] : [type, ['Idempotency-Key', key]],
    body: Buffer.from(JSON.stringify(body)),
  };
}
