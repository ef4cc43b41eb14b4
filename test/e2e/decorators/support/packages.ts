import { CreateRequestContext, EntitySchema, MikroORM, RequestContext } from '@mikro-orm/core';
import { defineConfig } from '@mikro-orm/postgresql';
import { Global, Module, type DynamicModule } from '@nestjs/common';
import {
  ClsPluginTransactional,
  Transactional as ClsTransactional,
  TransactionHost,
} from '@nestjs-cls/transactional';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { ClsModule, ClsServiceManager, UseCls } from 'nestjs-cls';
import { Span } from 'nestjs-otel';
import { requireIdempotencyTransaction } from 'nestjs-idempotency';
import { typeOrmUnitOfWork } from 'nestjs-idempotency/typeorm';
import { DataSource, type EntityManager } from 'typeorm';
import {
  addTransactionalDataSource,
  initializeTransactionalContext,
  StorageDriver,
  Transactional,
} from 'typeorm-transactional';

export const CREATE_CHARGES = 'CREATE TABLE charge (key text NOT NULL, execution integer NOT NULL)';
const INSERT = 'INSERT INTO charge VALUES ($1, $2)';

interface Charge {
  readonly key: string;
  readonly execution: number;
}

/** A decorator of another package that wraps a method. */
export interface OtherDecorator {
  readonly name: string;
  readonly decorate: () => MethodDecorator;
  /** Whether it copies the metadata of the method that it replaces. */
  readonly copiesMetadata: boolean;
  /** Whether it rolls back the writes of a method that fails. */
  readonly isTransaction: boolean;
  /** Writes as users of the decorator do, and throws outside of it. */
  readonly write: (charge: Charge) => Promise<unknown>;
}

const ChargeSchema = new EntitySchema<Charge>({
  name: 'charge',
  properties: {
    key: { type: 'text', primary: true },
    execution: { type: 'integer', primary: true },
  },
});

let dataSource: DataSource;
let orm: MikroORM;

/** Connects all packages to one database, each as its documentation says. */
export async function connectPackages(url: string): Promise<() => Promise<void>> {
  initializeTransactionalContext({ storageDriver: StorageDriver.ASYNC_LOCAL_STORAGE });
  dataSource = addTransactionalDataSource(new DataSource({ type: 'postgres', url, poolSize: 5 }));
  await dataSource.initialize();
  await dataSource.query(CREATE_CHARGES);
  orm = await MikroORM.init(
    defineConfig({ clientUrl: url, entities: [ChargeSchema], pool: { min: 0, max: 5 } }),
  );
  return async () => {
    await dataSource.destroy();
    await orm.close();
  };
}

/** The committed executions of a key. */
export async function committed({ key }: { readonly key: string }): Promise<number[]> {
  const text = 'SELECT execution FROM charge WHERE key = $1 ORDER BY execution';
  const rows: { execution: number }[] = await dataSource.query(text, [key]);
  return rows.map(({ execution }) => execution);
}

/** The module of nestjs-cls. The packages must be connected when its application starts. */
export function clsModule(): DynamicModule {
  const provider = { provide: DataSource, useValue: dataSource };

  @Global()
  @Module({ providers: [provider], exports: [provider] })
  class DataSourceModule {}

  const adapter = new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource });
  const plugins = [new ClsPluginTransactional({ imports: [DataSourceModule], adapter })];
  return ClsModule.forRoot({ plugins });
}

export const unitOfWork = () => typeOrmUnitOfWork(dataSource);

export const writeInTransaction = ({ key, execution }: Charge) =>
  requireIdempotencyTransaction<EntityManager>().query(INSERT, [key, execution]);

const write = ({ key, execution }: Charge) => dataSource.query(INSERT, [key, execution]);

function mustHold(isInside: unknown): void {
  if (isInside !== true) throw new Error('the method ran outside of the decorator');
}

export const otherDecorators: readonly OtherDecorator[] = [
  {
    name: 'typeorm-transactional’s @Transactional()',
    decorate: () => Transactional(),
    copiesMetadata: true,
    isTransaction: true,
    write: (charge) => {
      mustHold(dataSource.manager.queryRunner?.isTransactionActive);
      return write(charge);
    },
  },
  {
    name: 'nestjs-otel’s @Span()',
    decorate: () => Span('charge') as MethodDecorator,
    copiesMetadata: true,
    isTransaction: false,
    write,
  },
  {
    name: 'nestjs-cls’ @UseCls()',
    decorate: () => UseCls() as MethodDecorator,
    copiesMetadata: true,
    isTransaction: false,
    write: (charge) => {
      mustHold(ClsServiceManager.getClsService().isActive());
      return write(charge);
    },
  },
  {
    name: '@nestjs-cls/transactional’s @Transactional()',
    decorate: () => ClsTransactional(),
    copiesMetadata: true,
    isTransaction: true,
    write: ({ key, execution }) => {
      const host = TransactionHost.getInstance<TransactionalAdapterTypeOrm>();
      mustHold(host.isTransactionActive());
      return host.tx.query(INSERT, [key, execution]);
    },
  },
  {
    name: 'MikroORM’s @CreateRequestContext()',
    decorate: () => CreateRequestContext<object>(() => orm),
    copiesMetadata: false,
    isTransaction: false,
    // MikroORM rejects this outside of a request's context.
    write: (charge) => {
      mustHold(RequestContext.currentRequestContext() !== undefined);
      return orm.em.insert('charge', charge);
    },
  },
];
