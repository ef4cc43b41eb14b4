import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { IdempotencyTestingModule } from 'nestjs-idempotency/testing';
import { startShop, testShop, type Shop } from './support/shop.js';

describe('IdempotencyTestingModule.passThrough()', () => {
  let shop: Shop;
  beforeAll(async () => {
    shop = await startShop(testShop(IdempotencyTestingModule.passThrough()));
  });
  afterAll(() => shop.close());

  describe.each([
    ['http', 'OrdersController.create'],
    ['message', 'OrdersConsumer.price'],
    ['socket', 'OrdersGateway.order'],
    ['graphql', 'OrdersResolver.pay'],
    ['method', 'InvoiceService.send'],
    ['call', 'remind'],
  ])('lets %s through', (way, operation) => {
    it.each(['with', 'without'])('%s a key, every time', async (which) => {
      const { charges } = shop.ledger;
      const before = charges.length;
      const key = which === 'with' ? 'a-key-that-comes-twice' : undefined;
      const answers = [await shop.ways[way]!(key), await shop.ways[way]!(key)];
      expect(answers).toEqual([{ nr: before + 1 }, { nr: before + 2 }]);
      const charge = {
        ...{ by: way, operation, isProtected: false, isTakeover: false },
        ...{ attempt: 1, fencingToken: 0, aborted: false, ambient: true },
      };
      expect(charges.slice(before)).toEqual([charge, charge]);
    });
  });
});
