import { Body, Controller, Module, type OnApplicationShutdown, Post } from '@nestjs/common';
import { IdempotencyModule, IdempotencyTransaction, Idempotent } from 'nestjs-idempotency';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { sequelizeUnitOfWork } from 'nestjs-idempotency/sequelize';
import { DataTypes, Model, Sequelize, type Transaction } from 'sequelize';
import type { RefundDto } from './refund.js';

class Refund extends Model {}

const database = {
  provide: Sequelize,
  useFactory: () => {
    const sequelize = new Sequelize(process.env.DATABASE_URL!, { logging: false });
    const columns = { payment: DataTypes.TEXT, amount: DataTypes.INTEGER };
    Refund.init(columns, { sequelize, tableName: 'refunds', timestamps: false });
    return sequelize;
  },
};

@Module({ providers: [database], exports: [Sequelize] })
class DatabaseModule implements OnApplicationShutdown {
  constructor(private readonly sequelize: Sequelize) {}

  onApplicationShutdown() {
    return this.sequelize.close();
  }
}

// #region module
export const idempotency = IdempotencyModule.forRootAsync({
  imports: [DatabaseModule], // in your application: of SequelizeModule.forRoot()
  inject: [Sequelize],
  useFactory: (sequelize: Sequelize) => ({
    service: 'shop',
    store: postgresStore({ url: process.env.DATABASE_URL }),
    unitOfWork: sequelizeUnitOfWork(sequelize),
  }),
});
// #endregion

@Controller('refunds')
export class RefundsController {
  // #region handler
  @Post()
  @Idempotent({ transaction: true })
  refund(@Body() refund: RefundDto, @IdempotencyTransaction() transaction: Transaction) {
    return Refund.create({ ...refund }, { transaction });
  }
  // #endregion
}
