/** `npm run example -- tenants`: two tenants have a user with the same id, who sends the same key. */
import { show } from '../support/show.js';
import { OrdersController } from './orders.controller.js';
import { Orders } from './orders.js';
import { tenantAndUser } from './scopes.js';

const orders = new Orders();
await show(
  { controllers: [OrdersController], providers: [{ provide: Orders, useValue: orders }] },
  async (send) => {
    for (const tenant of ['acme', 'globex']) {
      const order = { key: 'k1', as: { tenant, id: '1' }, json: { item: 'book' } };
      await send('/orders', order);
      await send('/orders', order);
    }
  },
  { caller: { scope: tenantAndUser } },
);
console.log(`placed: ${orders.placed.join(', ')}`);
