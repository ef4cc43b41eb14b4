import { Inject, Injectable } from '@nestjs/common';
import {
  Idempotent,
  requireIdempotencyContext,
  requireIdempotencyTransaction,
} from 'nestjs-idempotency';
import { type AdapterName, adapterOf } from '../../test/integration/transactions/adapters/index.js';
import { knexAsClient, pgAsClient } from './as-client.js';
import { Outbox } from './nestjs-outbox.js';

export const WRITER = Symbol('WRITER');

/** How a test, or its process, writes the row of an order, and what it does before the record is written. */
export interface Writer {
  readonly insert: (transaction: never, id: string) => PromiseLike<unknown>;
  /** What the outbox gets of a transaction. */
  readonly forOutbox: (transaction: never) => object;
  readonly beforeRecord: () => Promise<unknown>;
}

/** The operation of orders.controller.ts, through any unit of work. */
@Injectable()
export class AnyOrders {
  constructor(
    private readonly outbox: Outbox,
    @Inject(WRITER) private readonly writer: Writer,
  ) {}

  @Idempotent({
    operation: 'orders.place',
    key: (id: string) => id,
    scope: () => [], // The id is that of the row: no client chooses it.
    transaction: true,
  })
  async place(id: string): Promise<{ placed: string; attempt: number }> {
    const transaction = requireIdempotencyTransaction<never>();
    const { attempt, downstreamKey } = requireIdempotencyContext();
    await this.writer.insert(transaction, id);
    await this.outbox.add(this.writer.forOutbox(transaction), {
      id: downstreamKey('order.placed'),
      topic: 'order.placed',
      payload: { id },
    });
    await this.writer.beforeRecord();
    return { placed: id, attempt };
  }
}

const itself = (transaction: never): object => transaction;

const FOR_OUTBOX: Partial<Record<AdapterName, (transaction: never) => object>> = {
  pg: pgAsClient,
  knex: knexAsClient,
};

/** Opens the unit of work, and the providers of an application on it. */
export async function openAnyOrders(
  name: AdapterName,
  url: string,
  beforeRecord: Writer['beforeRecord'],
) {
  const opened = await adapterOf(name).open(url, 4);
  const { unitOfWork, insert } = opened;
  const writer: Writer = { insert, beforeRecord, forOutbox: FOR_OUTBOX[name] ?? itself };
  const providers = [AnyOrders, Outbox, { provide: WRITER, useValue: writer }];
  return { unitOfWork, providers, close: () => opened.close() };
}

export const MODULE_OPTIONS = {
  service: 'shop',
  lease: { duration: '1s' },
  duplicates: { mode: 'wait', timeout: '30s' },
  // A busy machine must not look like a database that is down.
  storeErrors: { commandTimeout: '20s', saveTimeout: '20s' },
} as const;
