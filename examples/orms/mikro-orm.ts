import { EntitySchema } from '@mikro-orm/core';
import { type EntityManager, MikroORM } from '@mikro-orm/postgresql';
import { Body, Controller, Module, type OnApplicationShutdown, Post } from '@nestjs/common';
import { IdempotencyModule, IdempotencyTransaction, Idempotent } from 'nestjs-idempotency';
import { mikroOrmUnitOfWork } from 'nestjs-idempotency/mikro-orm';
import { postgresStore } from 'nestjs-idempotency/postgres';
import type { RefundDto } from './refund.js';

class Refund {
  id?: number;
  payment!: string;
  amount!: number;
}

const schema = new EntitySchema({
  class: Refund,
  tableName: 'refunds',
  properties: {
    id: { type: 'integer', primary: true },
    payment: { type: 'text' },
    amount: { type: 'integer' },
  },
});

const database = {
  provide: MikroORM,
  useFactory: () => MikroORM.init({ clientUrl: process.env.DATABASE_URL!, entities: [schema] }),
};

@Module({ providers: [database], exports: [MikroORM] })
class DatabaseModule implements OnApplicationShutdown {
  constructor(private readonly orm: MikroORM) {}

  onApplicationShutdown() {
    return this.orm.close();
  }
}

// #region module
export const idempotency = IdempotencyModule.forRootAsync({
  imports: [DatabaseModule], // in your application: of MikroOrmModule.forRoot()
  inject: [MikroORM],
  useFactory: (orm: MikroORM) => ({
    service: 'shop',
    store: postgresStore({ url: process.env.DATABASE_URL }),
    unitOfWork: mikroOrmUnitOfWork(orm),
  }),
});
// #endregion

@Controller('refunds')
export class RefundsController {
  // #region handler
  @Post()
  @Idempotent({ transaction: true })
  async refund(@Body() data: RefundDto, @IdempotencyTransaction() em: EntityManager) {
    const refund = em.create(Refund, data);
    await em.flush(); // the response has its id
    return { id: refund.id, ...data };
  }
  // #endregion
}
