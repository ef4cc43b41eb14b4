/**
 * What is used of a data source: a `DataSource` of TypeORM on pg will do. Structural, so that nobody needs TypeORM
 * to compile.
 *
 * @typeParam Manager - TypeORM's own `EntityManager`.
 */
export interface TypeOrmDataSource<Manager> {
  readonly options: { readonly type: string };
  createQueryRunner(): TypeOrmQueryRunner<Manager>;
}

/** A connection of the data source's pool, on loan. */
export interface TypeOrmQueryRunner<Manager> {
  readonly manager: Manager;
  readonly isTransactionActive: boolean;
  connect(): Promise<TypeOrmConnection>;
  startTransaction(isolationLevel?: TypeOrmIsolationLevel): Promise<void>;
  commitTransaction(): Promise<void>;
  rollbackTransaction(): Promise<void>;
  query(
    text: string,
    values: unknown[],
    useStructuredResult: true,
  ): Promise<{ readonly records: object[] }>;
  release(): Promise<void>;
}

/** The client of pg below it. */
export interface TypeOrmConnection {
  end(): Promise<void>;
  on(event: 'error' | 'end', listener: () => void): unknown;
  off(event: 'error' | 'end', listener: () => void): unknown;
}

export type TypeOrmIsolationLevel = 'READ COMMITTED' | 'REPEATABLE READ' | 'SERIALIZABLE';

/** Not `aurora-postgres`, which has no connection that could be lost or ended. */
const TYPE = 'postgres';

export function isTypeOrmDataSource(source: unknown): source is TypeOrmDataSource<unknown> {
  return (
    typeof source === 'object' &&
    source !== null &&
    'createQueryRunner' in source &&
    typeof source.createQueryRunner === 'function' &&
    'options' in source &&
    (source.options as { readonly type?: unknown } | undefined)?.type === TYPE
  );
}
