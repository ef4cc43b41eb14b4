import { Body, Controller, Post, UseGuards } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { CartGuard, cartOf } from './carts.js';
import { Shop, type Checkout } from './shop.js';

@Controller()
export class ShopController {
  constructor(private readonly shop: Shop) {}

  // #region cart
  @Post('checkouts')
  @UseGuards(CartGuard)
  @Idempotent({ caller: { scope: cartOf } })
  checkOut(@Body() checkout: Checkout) {
    return this.shop.checkOut(checkout);
  }
  // #endregion

  // #region shared
  @Post('contact')
  @Idempotent({
    caller: { anonymous: 'shared' },
    key: { syntax: 'uuid' },
    outcome: { retention: '1h', maxBytes: 4_096 },
  })
  contact(@Body() message: Checkout) {
    this.shop.checkOut(message);
    return { received: true }; // nothing about the sender
  }
  // #endregion

  /** Without an option, for the test: who the caller is remains unknown. */
  @Post('unknown')
  @Idempotent()
  unknown(@Body() message: Checkout) {
    return this.shop.checkOut(message);
  }
}
