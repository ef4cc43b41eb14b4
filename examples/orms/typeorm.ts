import { Body, Controller, Module, type OnApplicationShutdown, Post } from '@nestjs/common';
import { IdempotencyModule, IdempotencyTransaction, Idempotent } from 'nestjs-idempotency';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { typeOrmUnitOfWork } from 'nestjs-idempotency/typeorm';
import { Column, DataSource, Entity, EntityManager, PrimaryGeneratedColumn } from 'typeorm';
import type { RefundDto } from './refund.js';

@Entity('refunds')
export class Refund {
  @PrimaryGeneratedColumn()
  id!: number;

  @Column()
  payment!: string;

  @Column()
  amount!: number;
}

const dataSource = {
  provide: DataSource,
  useFactory: () =>
    new DataSource({
      type: 'postgres',
      url: process.env.DATABASE_URL!,
      entities: [Refund],
    }).initialize(),
};

@Module({ providers: [dataSource], exports: [DataSource] })
class DatabaseModule implements OnApplicationShutdown {
  constructor(private readonly source: DataSource) {}

  onApplicationShutdown() {
    return this.source.destroy();
  }
}

// #region module
export const idempotency = IdempotencyModule.forRootAsync({
  imports: [DatabaseModule], // in your application: of TypeOrmModule.forRoot()
  inject: [DataSource],
  useFactory: (source: DataSource) => ({
    service: 'shop',
    store: postgresStore({ url: process.env.DATABASE_URL }),
    unitOfWork: typeOrmUnitOfWork(source),
  }),
});
// #endregion

@Controller('refunds')
export class RefundsController {
  // #region handler
  @Post()
  @Idempotent({ transaction: true })
  refund(@Body() refund: RefundDto, @IdempotencyTransaction() manager: EntityManager) {
    return manager.save(Refund, refund);
  }
  // #endregion
}
