/** `npm run example -- saga`: the carrier is down at first. The saga is run again, and no step has its effect twice. */
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { IdempotencyModule } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { OrderSaga } from './order.saga.js';
import { Bank, Carrier, Stock } from './services.js';

@Module({})
class SagaModule {}

const effects: string[] = [];
const act = (name: string) => () => {
  effects.push(name);
  return Promise.resolve({ accepted: true });
};
let isDown = true;
const ship = () => {
  if (isDown) return Promise.reject(new Error('The carrier is down'));
  return act('ship')();
};

const app = await NestFactory.createApplicationContext(
  {
    module: SagaModule,
    imports: [IdempotencyModule.forRoot({ store: memoryStore() })],
    providers: [
      OrderSaga,
      { provide: Stock, useValue: { reserve: act('reserve'), release: act('release') } },
      { provide: Bank, useValue: { charge: act('charge'), refund: act('refund') } },
      { provide: Carrier, useValue: { ship } },
    ],
  },
  { logger: ['error'] },
);
const run = () => app.get(OrderSaga).run({ id: 'order-1', amount: 4999 });
console.log('first run: ', await run().catch(String));
isDown = false;
console.log('second run:', await run());
console.log('third run: ', await run());
await app.close();
console.log(`effects: ${effects.join(', ')}`);
