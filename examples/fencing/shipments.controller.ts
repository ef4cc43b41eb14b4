import { Controller, Param, Post, type ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';
import { IdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { Pool } from 'pg';
import { Carrier } from './carrier.js';

const orderOf = (context: ExecutionContext) =>
  context.switchToHttp().getRequest<Request<{ order: string }>>().params.order;

@Controller('shipments')
export class ShipmentsController {
  constructor(
    private readonly carrier: Carrier,
    private readonly database: Pool,
  ) {}

  @Post(':order/label')
  @Idempotent({ key: orderOf })
  async ship(
    @Param('order') order: string,
    @IdempotencyContext() { fencingToken }: IdempotencyContext,
  ) {
    const label = await this.carrier.print(order);
    const { rowCount } = await this.database.query(
      'UPDATE shipments SET label = $2, fence = $1 WHERE order_id = $3 AND fence < $1',
      [fencingToken, label, order],
    );
    // No row: another attempt has written since, and its outcome is the one that counts.
    return { label, written: rowCount === 1 };
  }
}
