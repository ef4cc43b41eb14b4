/** `npm run example -- public-routes`: a cart is the caller where nobody has logged in. */
import { show } from '../support/show.js';
import { cartToken } from './carts.js';
import { ShopController } from './shop.controller.js';
import { Shop } from './shop.js';

process.env.CART_SECRET = 'a secret of this example';
const shop = new Shop();
await show(
  { controllers: [ShopController], providers: [{ provide: Shop, useValue: shop }] },
  async (send) => {
    for (const name of ['ann', 'ben']) {
      const headers = { 'x-cart': cartToken(`cart of ${name}`) };
      const checkout = { key: 'k1', json: { email: `${name}@example.com` }, headers };
      await send('/checkouts', checkout);
      await send('/checkouts', checkout);
    }
    await send('/unknown', { key: 'k1', json: { email: 'eve@example.com' } });
  },
);
console.log(`checked out: ${shop.emails.join(', ')}`);
