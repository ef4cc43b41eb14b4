import { DataTypes, Sequelize, type Model, type ModelStatic, type Transaction } from 'sequelize';
import { sequelizeUnitOfWork } from 'nestjs-idempotency/sequelize';
import type { UnitOfWorkUnderTest } from '../unit-of-work-suite.js';
import { onPostgres } from './on-postgres.js';

export function openSequelize(url: string, max: number): Sequelize {
  return new Sequelize(url, { logging: false, pool: { max } });
}

export function effectModel(sequelize: Sequelize): ModelStatic<Model> {
  const id = { type: DataTypes.STRING(64), primaryKey: true };
  return sequelize.define('Effect', { id }, { tableName: 'effects', timestamps: false });
}

export const sequelize: UnitOfWorkUnderTest<Transaction> = {
  name: 'sequelizeUnitOfWork',
  reportsLoss: false,
  canCut: false,
  open: async (url, connections) => {
    const opened = openSequelize(url, connections);
    const Effect = effectModel(opened);
    return {
      unitOfWork: onPostgres(sequelizeUnitOfWork(opened)),
      insert: (transaction, id) => Effect.create({ id }, { transaction }),
      close: () => opened.close(),
    };
  },
};
