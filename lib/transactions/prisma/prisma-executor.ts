import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { hostAndPort } from '../../core/util/host-and-port.js';
import { NoConnectionError, type PostgresExecutor } from '../shared/connections.js';
import { StatementConnection } from '../shared/executor-connections.js';
import { isServerError, layersOf, unwrapServerError } from '../shared/sql-state.js';
import type { SqlTransaction } from '../shared/sql-transaction.js';
import { isPrismaClient, queryOf, type PrismaTransaction } from './prisma-unit-of-work.js';

/**
 * Lets the store use the connections of Prisma's pool, by `$queryRawUnsafe`. Does not disconnect the client.
 *
 * Prisma hands out no connection: statements have no names; one whose reply is late holds its connection until the
 * reply; whether it still waits for a connection is not known, so its outcome counts as unknown; and `store.migrate()` is
 * refused. Where you create the pool yourself, with `new PrismaPg(pool)`, `fromPg(pool)` has none of these limits.
 *
 * @param client - a `PrismaClient`, generated from the application's schema. Disconnect it in `onApplicationShutdown`,
 * after the last outcome was stored.
 * @throws {@link IdempotencyOptionsError} when it is not.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [PrismaService],
 *   useFactory: (prisma: PrismaService) => ({
 *     store: postgresStore({ executor: fromPrisma(prisma) }),
 *     unitOfWork: prismaUnitOfWork(prisma),
 *   }),
 * });
 * ```
 */
export function fromPrisma(client: PrismaTransaction): PostgresExecutor {
  if (!isPrismaClient(client)) {
    throw new IdempotencyOptionsError(
      'fromPrisma: the client must be an instance of a generated PrismaClient.',
    );
  }
  return {
    name: 'fromPrisma',
    kind: 'statement',
    connect: (use) => {
      use(undefined, new StatementConnection(sendBy(queryOf(client))));
    },
  };
}

function sendBy(send: SqlTransaction['query']): SqlTransaction['query'] {
  return async (text, values) => {
    try {
      return await send(text, values);
    } catch (error) {
      const place = unreachablePlace(error);
      if (place !== undefined) {
        const cause = new Error(`Prisma cannot reach the server at ${place}.`);
        throw new NoConnectionError('no connection', { cause });
      }
      const found = unwrapServerError(error);
      throw isServerError(found) ? found : new Error(lastLineOf(found), { cause: error });
    }
  };
}

/** Where no connection opened: nothing was sent, though the error comes with the statement. */
function unreachablePlace(error: unknown): string | undefined {
  for (const { kind, host, port } of layersOf(error)) {
    if (kind === 'DatabaseNotReachable') return hostAndPort(String(host), Number(port));
  }
  return undefined;
}

/** Above it, Prisma shows the source of the call. */
function lastLineOf({ message }: Error): string {
  return message.trim().split('\n').at(-1) ?? '';
}
