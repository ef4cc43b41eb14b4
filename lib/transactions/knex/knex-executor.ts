import type { Knex } from 'knex';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import type { PostgresConnection, PostgresExecutor } from '../shared/connections.js';
import { connectBy, DriverConnection, type PgClient } from '../shared/executor-connections.js';
import { isKnex } from './knex-unit-of-work.js';

/** The part of Knex's client that is used. */
interface KnexClient {
  readonly dialect: string;
  readonly driverName: string;
  acquireConnection(): Promise<PgClient>;
  releaseConnection(connection: PgClient): Promise<unknown>;
}

/**
 * Lets the store use the connections of Knex's pool. Its statements go to the client of pg itself: Knex neither logs them
 * nor emits events. Does not destroy `knex`.
 *
 * @param knex - the result of `knex({ client: 'pg', … })`. Destroy it in `onApplicationShutdown`, after the last outcome
 * was stored.
 * @throws {@link IdempotencyOptionsError} when it is not.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [KNEX],
 *   useFactory: (knex: Knex) => ({ store: postgresStore({ executor: fromKnex(knex) }) }),
 * });
 * ```
 */
export function fromKnex(knex: Knex): PostgresExecutor {
  const client: KnexClient | undefined = isKnex(knex) ? (knex.client as KnexClient) : undefined;
  if (client?.dialect !== 'postgresql' || client.driverName !== 'pg') {
    throw new IdempotencyOptionsError(
      "fromKnex: knex must be the result of knex({ client: 'pg', … }), not a transaction.",
    );
  }
  return { name: 'fromKnex', kind: 'driver', connect: connectBy(() => checkOut(client)) };
}

async function checkOut(client: KnexClient): Promise<PostgresConnection> {
  const connection = await client.acquireConnection();
  const giveBack = () => {
    client.releaseConnection(connection).catch(() => undefined);
  };
  return new DriverConnection(connection, (ended) => {
    // Knex drops a client that has ended: before, it would lend it to the application.
    if (ended === undefined) giveBack();
    else void ended.then(giveBack);
  });
}
