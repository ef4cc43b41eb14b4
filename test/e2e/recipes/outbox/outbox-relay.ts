import type { Pool } from 'pg';

export interface OutboxMessage {
  /** What its consumers take for the key. */
  readonly id: string;
  readonly topic: string;
  readonly payload: unknown;
}

/** Resolves when the broker has confirmed the message. */
export type Publish = (message: OutboxMessage) => Promise<void>;

/** A connection that is lost shows at its next query. Its event would end the process if nobody listened to it. */
const ignore = () => undefined;

/** Publishes what is in the outbox, at least once: a message that was published and not deleted is published again. */
export class OutboxRelay {
  constructor(
    private readonly pool: Pool,
    private readonly publish: Publish,
  ) {}

  /**
   * Publishes one batch, in the order of the outbox. Any number of processes may do so at the same time: each takes rows
   * that no other one has, and what a process leaves behind comes free with its connection.
   *
   * @returns how many messages it has published; 0: there is nothing to do for now.
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
