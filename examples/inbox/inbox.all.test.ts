import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { INestMicroservice } from '@nestjs/common';
import { connect, type ChannelModel, type ConfirmChannel } from 'amqplib';
import { IdempotencyEvents, IdempotencyService } from 'nestjs-idempotency';
import { migrate } from 'nestjs-idempotency/postgres';
import type { Pool } from 'pg';
import { startConsumer } from '../../test/e2e/messages/support/start-consumer.js';
import { callingApp } from '../../test/support/nest/calling-app.js';
import { openPostgresPool } from '../../test/support/postgres/postgres-pool.js';
import { usePostgres } from '../../test/support/postgres/use-postgres.js';
import { TalkingProcess } from '../../test/support/processes/talking-process.js';
import { useRabbitMq } from '../../test/support/rabbitmq/use-rabbitmq.js';
import { START_HOOK_MS } from '../../test/support/servers/start-server.js';
import { until } from '../../test/support/waiting/until.js';
import { CREATE_OUTBOX, OutboxInbox } from '../nestjs-outbox/nestjs-outbox.js';
import { billingQueue } from '../orders-on-rabbitmq/billing-queue.js';
import { consumerOptions } from './revenue-queue.js';
import { RevenueConsumer, type Envelope } from './revenue.consumer.js';

const GATE = 1;

const server = usePostgres();
const broker = useRabbitMq();
let url: string;
let pool: Pool;

beforeAll(async () => {
  url = await server.newDatabase();
  await migrate({ url });
  pool = openPostgresPool(url);
  await pool.query(CREATE_OUTBOX);
  await pool.query(`
    CREATE TABLE revenue (order_id text NOT NULL, amount integer NOT NULL);
    CREATE FUNCTION pass_gate() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_advisory_xact_lock_shared(${GATE}); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER gate AFTER INSERT ON revenue DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION pass_gate()`);
}, START_HOOK_MS);
afterAll(() => pool.end());

async function amountsOf({ payload }: Envelope): Promise<number[]> {
  const { rows } = await pool.query<{ amount: number }>(
    'SELECT amount FROM revenue WHERE order_id = $1',
    [payload.id],
  );
  return rows.map(({ amount }) => amount);
}

const newEnvelope = (): Envelope => ({
  id: randomUUID(),
  payload: { id: randomUUID(), amount: 500 },
});

describe('A consumer with the id of the envelope as its key', () => {
  let queue: string;
  let connection: ChannelModel;
  let channel: ConfirmChannel;
  let consumer: INestMicroservice | undefined;
  let mortal: TalkingProcess<{ listens: string }> | undefined;

  beforeEach(async () => {
    queue = `revenue-${randomUUID()}`;
    connection = await connect(broker.url);
    channel = await connection.createConfirmChannel();
  });
  afterEach(async () => {
    await mortal?.kill();
    await consumer?.close();
    await connection.close();
  });

  /** As a relay does: again and again with the same id. */
  async function publish(envelope: Envelope): Promise<void> {
    const content = Buffer.from(JSON.stringify({ pattern: 'order.placed', data: envelope }));
    channel.sendToQueue(queue, content, { persistent: true });
    await channel.waitForConfirms();
  }

  /** How often the consumer of this process has run a handler, and acknowledged without running it. */
  const counts = { ran: 0, replayed: 0 };

  async function consume(): Promise<void> {
    Object.assign(counts, { ran: 0, replayed: 0 });
    consumer = await startConsumer(billingQueue(broker.url, queue), {
      controllers: [RevenueConsumer],
      options: consumerOptions(url, pool),
    });
    consumer.get(IdempotencyEvents, { strict: false }).subscribe(({ type }) => {
      if (type === 'completed') counts.ran += 1;
      if (type === 'replayed') counts.replayed += 1;
    });
  }

  const untilCounted = (ran: number, replayed: number) =>
    until(() => counts.ran === ran && counts.replayed === replayed, 60_000);

  async function startMortal(): Promise<TalkingProcess<{ listens: string }>> {
    const script = new URL('inbox.process.ts', import.meta.url);
    mortal = new TalkingProcess(script, { url, broker: broker.url, queue });
    expect(await mortal.next()).toEqual({ listens: queue });
    return mortal;
  }

  /** Resolves when a statement waits for the gate's lock. */
  const untilHeld = (locktype: string) =>
    until(async () => {
      const { rowCount } = await pool.query(
        'SELECT FROM pg_locks WHERE locktype = $1 AND NOT granted',
        [locktype],
      );
      return rowCount === 1;
    }, 60_000);

  it('handles an event once, however often it is published', async () => {
    await consume();
    const envelopes = [newEnvelope(), newEnvelope()];
    for (const envelope of [...envelopes, ...envelopes, ...envelopes]) await publish(envelope);
    await untilCounted(2, 4);
    expect(await Promise.all(envelopes.map(amountsOf))).toEqual([[500], [500]]);
  }, 60_000);

  it.each([
    ['before its row is written', 'BEGIN; LOCK TABLE revenue IN SHARE MODE', 'relation', 1],
    ['while the server commits', `BEGIN; SELECT pg_advisory_xact_lock(${GATE})`, 'advisory', 0],
  ])(
    'handles an event once whose consumer is killed %s',
    async (_, hold, locktype, ran) => {
      const envelope = newEnvelope();
      const killed = await startMortal();
      const gate = await pool.connect();
      try {
        await gate.query(hold);
        await publish(envelope);
        await Promise.race([untilHeld(locktype), killed.next()]);
        await killed.kill();
      } finally {
        await gate.query('ROLLBACK');
        gate.release();
      }
      await consume();
      await untilCounted(ran, 1 - ran);
      expect(await amountsOf(envelope)).toEqual([500]);
      await publish(envelope);
      await untilCounted(ran, 2 - ran);
      expect(await amountsOf(envelope)).toEqual([500]);
    },
    120_000,
  );
});

describe('The inbox of the outbox', () => {
  const insert = ({ payload }: Envelope, database: Pick<Pool, 'query'>) =>
    database.query('INSERT INTO revenue (order_id, amount) VALUES ($1, $2)', [
      payload.id,
      payload.amount,
    ]);

  /** A consumer that has the inbox, and dies before its COMMIT if it is told to. */
  async function deliver(
    { id }: Envelope,
    work: (transaction: Pick<Pool, 'query'>) => Promise<unknown>,
    end: 'COMMIT' | 'ROLLBACK' = 'COMMIT',
  ) {
    const client = await pool.connect();
    try {
      await client.query('BEGIN');
      return await new OutboxInbox().processInTransaction(client, 'revenue', id, () =>
        work(client),
      );
    } finally {
      await client.query(end);
      client.release();
    }
  }

  it('is enough for rows of its own database', async () => {
    const envelope = newEnvelope();
    const write = (client: Pick<Pool, 'query'>) => insert(envelope, client);
    await deliver(envelope, write, 'ROLLBACK');
    expect(await deliver(envelope, write)).toEqual({ duplicate: false });
    expect(await deliver(envelope, write)).toEqual({ duplicate: true });
    expect(await amountsOf(envelope)).toEqual([500]);
  });

  it('loses the row around run() for the same message: the guide warns of it', async () => {
    const { nest } = await callingApp({}, consumerOptions(url, pool));
    const envelope = newEnvelope();
    const write = (client: Pick<Pool, 'query'>) =>
      nest
        .get(IdempotencyService, { strict: false })
        .run({ operation: 'revenue.both', key: envelope.id, scope: 'revenue' }, async () => {
          await insert(envelope, client);
        });
    await deliver(envelope, write, 'ROLLBACK');
    expect(await deliver(envelope, write)).toEqual({ duplicate: false });
    expect(await amountsOf(envelope)).toEqual([]);
    await nest.close();
  });
});
