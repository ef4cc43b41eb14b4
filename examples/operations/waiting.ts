import { Body, Controller, Post } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';

@Controller('orders')
export class OrdersController {
  private placed = 0;

  @Post()
  @Idempotent({ duplicates: { mode: 'wait', timeout: '5s' } })
  place(@Body() { item }: { item: string }) {
    this.placed += 1;
    return { order: this.placed, item };
  }
}
