import { HttpException, HttpStatus, Inject, Injectable } from '@nestjs/common';
import { Redis } from 'ioredis';

export interface Payment {
  readonly order: string;
  readonly amount: number;
}

export const LEDGER = Symbol('LEDGER');

/** Counts the charges of an order, outside of every idempotency package: the oracle. */
@Injectable()
export class Ledger {
  constructor(@Inject(LEDGER) private readonly redis: Redis) {}

  /** Declines more than 1,000. A payment of 0 waits until the test opens its order. */
  async charge({ order, amount }: Payment): Promise<{ charge: string }> {
    const number = await this.redis.incr(`charges:${order}`);
    if (amount > 1_000) {
      throw new HttpException({ reason: 'declined', number }, HttpStatus.PAYMENT_REQUIRED);
    }
    if (amount === 0) {
      const waiting = this.redis.duplicate();
      await waiting.blpop(`open:${order}`, 0);
      waiting.disconnect();
    }
    return { charge: `${order}/${number}` };
  }
}
