import { sql } from 'drizzle-orm';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import { CompiledQuery, type Kysely, type Transaction } from 'kysely';
import type { EntityManager } from 'typeorm';

/**
 * Stands for `@nestjs/outbox`, which cannot be installed here: it takes and refuses the transactions that the
 * documentation and the sources of 0.1.1 say, and keeps messages and inbox as tables of the application's database.
 */
export const CREATE_OUTBOX = `
  CREATE SCHEMA nest_outbox;
  CREATE TABLE nest_outbox.messages (
    seq bigint GENERATED ALWAYS AS IDENTITY,
    id text PRIMARY KEY,
    topic text NOT NULL,
    payload jsonb NOT NULL
  );
  CREATE TABLE nest_outbox.inbox (consumer text, message_id text, PRIMARY KEY (consumer, message_id))`;

export interface OutboxMessage {
  readonly id: string;
  readonly topic: string;
  readonly payload: unknown;
}

/** What a transport hands to a consumer, as far as the examples read it. */
export type OutboxEnvelope<Payload> = OutboxMessage & { readonly payload: Payload };

export class OutboxTransactionRequiredError extends Error {
  override readonly name = 'OutboxTransactionRequiredError';
}

export class Outbox {
  notified = 0;

  /** Inserts the message through a transaction of the application. */
  async add(transaction: object, message: OutboxMessage): Promise<void> {
    await run(
      transaction,
      `INSERT INTO nest_outbox.messages (id, topic, payload)
       SELECT m.id, m.topic, m.payload FROM jsonb_to_record($1::jsonb) AS m (id text, topic text, payload jsonb)`,
      message,
    );
  }

  /** Wakes the relay. */
  notify(): void {
    this.notified += 1;
  }
}

export class OutboxInbox {
  /** Records the message through a transaction of the application, and calls `work` if it is new to this consumer. */
  async processInTransaction(
    transaction: object,
    consumer: string,
    id: string,
    work: () => Promise<unknown>,
  ): Promise<{ readonly duplicate: boolean }> {
    const recorded = await run(
      transaction,
      `INSERT INTO nest_outbox.inbox
       SELECT m.consumer, m.id FROM jsonb_to_record($1::jsonb) AS m (consumer text, id text)
       ON CONFLICT DO NOTHING RETURNING message_id`,
      { consumer, id },
    );
    if (recorded.length === 1) await work();
    return { duplicate: recorded.length === 0 };
  }
}

/** A statement with one parameter, through whatever transaction it is. */
async function run(transaction: object, text: string, parameter: object): Promise<unknown[]> {
  const value = JSON.stringify(parameter);
  if (isDrizzle(transaction)) {
    const [before = '', after = ''] = text.split('$1');
    return (await transaction.execute(sql`${sql.raw(before)}${value}${sql.raw(after)}`)).rows;
  }
  if (isTypeOrm(transaction) && transaction.queryRunner?.isTransactionActive === true) {
    return (await transaction.queryRunner.query(text, [value], true)).records;
  }
  if (isKysely(transaction)) {
    return (await transaction.withoutPlugins().executeQuery(CompiledQuery.raw(text, [value]))).rows;
  }
  if (isPrisma(transaction)) return transaction.$queryRawUnsafe(text, value);
  if (isClient(transaction)) return (await transaction.query(text, [value])).rows;
  throw new OutboxTransactionRequiredError('Pass the transaction, not the database.');
}

const has = (value: object, method: string) =>
  typeof (value as Record<string, unknown>)[method] === 'function';

const KIND = Symbol.for('drizzle:entityKind');

/** The names with which Drizzle marks a class, and those that it extends. */
function kindsOf(type: unknown): unknown[] {
  if (typeof type !== 'function') return [];
  const { [KIND]: kind } = type as unknown as Record<symbol, unknown>;
  return [kind, ...kindsOf(Object.getPrototypeOf(type))];
}

function isDrizzle(value: object): value is NodePgDatabase {
  const kinds = kindsOf(value.constructor);
  return kinds.some((kind) => typeof kind === 'string' && /^Pg\w*Transaction$/.test(kind));
}

function isTypeOrm(value: object): value is EntityManager {
  return (value as Record<string, unknown>)['@instanceof'] === Symbol.for('EntityManager');
}

function isKysely(value: object): value is Transaction<unknown> {
  const { isTransaction } = value as Kysely<unknown>;
  return has(value, 'executeQuery') && has(value, 'withoutPlugins') && isTransaction;
}

interface PrismaTransaction {
  $queryRawUnsafe(text: string, ...values: unknown[]): Promise<unknown[]>;
}

/** A transaction of Prisma is its client without `$connect`. */
function isPrisma(value: object): value is PrismaTransaction {
  return has(value, '$queryRawUnsafe') && !has(value, '$connect');
}

interface Client {
  query(text: string, values: unknown[]): Promise<{ readonly rows: unknown[] }>;
  connect(): Promise<unknown>;
  getTransactionStatus?(): string | null;
}

/** A pool has a `totalCount`; a client of pg 8.21 or later says whether it is in a transaction. */
function isClient(value: object): value is Client {
  if (!has(value, 'query') || !has(value, 'connect') || 'totalCount' in value) return false;
  return ((value as Client).getTransactionStatus?.() ?? 'T') === 'T';
}
