import type { Pool } from 'pg';

export interface OutboxMessage {
  /** The key of its consumers. */
  readonly id: string;
  readonly topic: string;
  readonly payload: unknown;
}

/** Resolves when the broker has confirmed the message. */
export type Publish = (message: OutboxMessage) => Promise<void>;

/** A lost connection fails its next query. Without a listener, its 'error' event would end the process. */
const ignore = () => undefined;

/** Publishes the messages of the outbox at least once: one that was published but not deleted is published again. */
export class OutboxRelay {
  constructor(
    private readonly pool: Pool,
    private readonly publish: Publish,
  ) {}

  /**
   * Publishes one batch, in the order of the outbox. Processes may do so concurrently: each skips the rows that
   * another one has locked, and PostgreSQL unlocks the rows of a lost connection.
   *
   * @returns the number of published messages; 0 if the outbox is empty or locked.
   */
  async relay(batchSize = 100): Promise<number> {
    const client = await this.pool.connect();
    client.on('error', ignore);
    try {
      await client.query('BEGIN');
      const { rows } = await client.query<OutboxMessage & { position: string }>(
        `SELECT position, message_id AS id, topic, payload FROM outbox
         ORDER BY position LIMIT $1 FOR UPDATE SKIP LOCKED`,
        [batchSize],
      );
      for (const { id, topic, payload } of rows) await this.publish({ id, topic, payload });
      const published = rows.map(({ position }) => position);
      await client.query('DELETE FROM outbox WHERE position = ANY ($1::bigint[])', [published]);
      await client.query('COMMIT');
      client.off('error', ignore);
      client.release();
      return rows.length;
    } catch (error) {
      // Rolls back, whatever state the connection is in.
      client.release(true);
      throw error;
    }
  }
}
