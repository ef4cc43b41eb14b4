import { integer, pgTable, text } from 'drizzle-orm/pg-core';

export const orders = pgTable('orders', { id: text().primaryKey(), amount: integer().notNull() });
export const schema = { orders };

export type Order = typeof orders.$inferInsert;
