/**
 * The types of `@Idempotent()` on methods that handle no requests. `npm run typecheck` fails when one of these changes.
 */
import { Body, Controller, Post, type ExecutionContext } from '@nestjs/common';
import { Idempotent, type OperationRejectedError } from 'nestjs-idempotency';

interface Order {
  readonly id: string;
  readonly amount: number;
}

export class Fitting {
  @Idempotent({ key: (orderId: string, amount: number) => `${orderId}/${amount}` })
  async both(orderId: string, amount: number): Promise<string> {
    return Promise.resolve(`${orderId}: ${amount}`);
  }

  @Idempotent({ key: (orderId: string) => orderId })
  async theFirst(orderId: string, amount: number): Promise<string> {
    return Promise.resolve(`${orderId}: ${amount}`);
  }

  @Idempotent({ key: ({ id }: { id: string }) => id })
  async partOfIt(order: Order): Promise<number> {
    return Promise.resolve(order.amount);
  }

  @Idempotent({
    key: ({ id }: Order) => id,
    scope: ({ amount }) => amount,
    payload: (order) => order,
  })
  async inferred(order: Order): Promise<number> {
    return Promise.resolve(order.amount);
  }

  @Idempotent({ key: (...ids: string[]) => ids.join('/') })
  async several(customer: string, order: string): Promise<string> {
    return Promise.resolve(`${customer}: ${order}`);
  }

  @Idempotent({ key: () => 'nightly' })
  async none(): Promise<void> {
    return Promise.resolve();
  }

  @Idempotent({ key: ({ id }: Order) => id, onRejected: (_error, { amount }) => amount })
  async instead(order: Order): Promise<number> {
    return Promise.resolve(order.amount);
  }

  @Idempotent({
    key: ({ id }: Order) => id,
    onRejected: (error: OperationRejectedError, _order: Order, _token?: string): never => {
      throw error;
    },
  })
  async thrown(order: Order, _token?: string): Promise<number> {
    return Promise.resolve(order.amount);
  }
}

export class NotFitting {
  // @ts-expect-error -- the key takes a number, the method a string
  @Idempotent({ key: (id: number) => String(id) })
  async another(id: string): Promise<string> {
    return Promise.resolve(id);
  }

  // @ts-expect-error -- the key takes more arguments than the method
  @Idempotent({ key: (id: string, amount: number) => `${id}/${amount}` })
  async fewer(id: string): Promise<string> {
    return Promise.resolve(id);
  }

  // @ts-expect-error -- the key takes only strings, the method also a number
  @Idempotent({ key: (...ids: string[]) => ids.join('/') })
  async several(customer: string, order: number): Promise<string> {
    return Promise.resolve(`${customer}: ${order}`);
  }

  // @ts-expect-error -- the key takes an argument that is optional
  @Idempotent({ key: (id: string) => id })
  async optional(id?: string): Promise<string | undefined> {
    return Promise.resolve(id);
  }

  // @ts-expect-error -- a method must return a promise
  @Idempotent({ key: (id: string) => id })
  atOnce(id: string): string {
    return id;
  }

  // @ts-expect-error -- a string in place of a number
  @Idempotent({ key: ({ id }: Order) => id, onRejected: () => 'later' })
  async instead(order: Order): Promise<number> {
    return Promise.resolve(order.amount);
  }

  // @ts-expect-error -- a key must be a string
  @Idempotent({ key: ({ amount }: Order) => amount })
  async numberAsKey(order: Order): Promise<number> {
    return Promise.resolve(order.amount);
  }

  // @ts-expect-error -- a scope from a member that does not exist
  @Idempotent({ key: ({ id }: Order) => id, scope: ({ user }) => user })
  async noSuchMember(order: Order): Promise<number> {
    return Promise.resolve(order.amount);
  }

  // @ts-expect-error -- an unknown option
  @Idempotent({ key: ({ id }: Order) => id, keys: 1 })
  async unknown(order: Order): Promise<number> {
    return Promise.resolve(order.amount);
  }
}

// @ts-expect-error -- a key from arguments requires a method
@Idempotent({ key: ({ id }: Order) => id })
export class NoMethod {}

/** Routes take their own options. */
@Controller()
@Idempotent({ key: { required: false } })
export class Routes {
  @Post()
  @Idempotent({ key: (context: ExecutionContext) => context.getHandler().name })
  pay(@Body() order: Order): number {
    return order.amount;
  }

  @Post('other')
  @Idempotent({ key: (context) => context.getClass().name, operation: 'other' })
  other(@Body() order: Order): number {
    return order.amount;
  }
}
