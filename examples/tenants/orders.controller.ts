import { Body, Controller, ForbiddenException, HostParam, Post, Req } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { Orders, type Order } from './orders.js';
import { type GuardedRequest, tenantAlone } from './scopes.js';

@Controller('orders')
export class OrdersController {
  constructor(private readonly orders: Orders) {}

  /** Scope of the module: tenant and user. */
  @Post()
  @Idempotent()
  place(@Body() order: Order, @Req() { user }: GuardedRequest) {
    return this.orders.place(user?.tenant, order);
  }

  /** Imports are repeated by whichever machine of the tenant is free. */
  @Post('imports')
  @Idempotent({ caller: { scope: tenantAlone } })
  import(@Body() order: Order, @Req() { user }: GuardedRequest) {
    return this.orders.place(user?.tenant, order);
  }
}

// #region host
@Controller({ path: 'shop-orders', host: ':tenant.shop.test' })
export class TenantHostController {
  constructor(private readonly orders: Orders) {}

  @Post()
  @Idempotent()
  place(@HostParam('tenant') tenant: string, @Body() order: Order, @Req() request: GuardedRequest) {
    // The scope is the user's tenant. The host is what the client wrote: compare both.
    if (request.user?.tenant !== tenant) throw new ForbiddenException();
    return this.orders.place(tenant, order);
  }
}
// #endregion
