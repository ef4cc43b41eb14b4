import { Body, Controller, Post, Req, type Type } from '@nestjs/common';
import { setTimeout as delay } from 'node:timers/promises';
import type { Contender, WorkRequest } from './contender.js';
import { Effects } from './effects.js';

const SLOW_MS = 50;

/** As a payment is answered: 200 bytes. */
const PAYMENT = {
  id: 'pay_01j9zq3k5v8w2x4y6z7a9b1c',
  status: 'authorised',
  amount: 1990,
  currency: 'EUR',
  merchant: 'merchant-0042',
  reference: 'order-2026-000123',
  createdAt: '2026-01-02T03:04:05.678Z',
  note: '',
};
PAYMENT.note = 'x'.repeat(200 - JSON.stringify(PAYMENT).length);

interface Payment {
  /** The size of the answer's body, where it is not the usual one. */
  readonly responseBytes?: number;
}

/** The routes of all contenders: the same handlers, whatever stands around them. */
export function controllerOf(contender: Contender, effects: Effects): Type {
  const { mark = unmarked, markWaiting = mark, around = unprotected } = contender;

  @Controller()
  class PaymentsController {
    @Post('payments')
    @mark
    pay(@Req() request: WorkRequest, @Body() payment: Payment) {
      return around(request, async () => {
        effects.count += 1;
        const { responseBytes } = payment;
        return responseBytes === undefined ? PAYMENT : { note: 'x'.repeat(responseBytes - 11) };
      });
    }

    @Post('held')
    @mark
    held(@Req() request: WorkRequest) {
      return around(request, async () => {
        effects.count += 1;
        await effects.untilReleased();
        return PAYMENT;
      });
    }

    @Post('slow')
    @mark
    slow(@Req() request: WorkRequest) {
      return around(request, () => slowly());
    }

    @Post('waiting')
    @markWaiting
    waiting(@Req() request: WorkRequest) {
      return around(request, () => slowly());
    }
  }

  async function slowly() {
    effects.count += 1;
    await delay(SLOW_MS);
    return PAYMENT;
  }

  return PaymentsController;
}

function unmarked(): void {
  // Stands where a contender has no decorator.
}

function unprotected(_request: WorkRequest, work: () => Promise<unknown>): Promise<unknown> {
  return work();
}
