import { Body, Controller, Headers, Post, Req, UseFilters } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import { PlaceOrder } from './place-order.handler.js';
import { RejectionFilter } from './rejection.filter.js';

@Controller('orders')
export class OrdersController {
  constructor(private readonly commands: CommandBus) {}

  @Post()
  @UseFilters(RejectionFilter)
  place(
    @Headers('idempotency-key') key: string,
    @Req() { user }: { user: { id: string } },
    @Body() { items }: { items: string[] },
  ) {
    return this.commands.execute(new PlaceOrder(key, user.id, items));
  }
}
