import { ClassSerializerInterceptor, UseInterceptors } from '@nestjs/common';
import {
  Args,
  createUnionType,
  Field,
  GraphQLISODateTime,
  Int,
  Mutation,
  ObjectType,
  Parent,
  ResolveField,
  Resolver,
} from '@nestjs/graphql';
import { describe, expect, it } from '@jest/globals';
import { Idempotent, jsonCodec } from 'nestjs-idempotency';
import { messagePackCodec } from 'nestjs-idempotency/messagepack';
import { Exclude } from 'class-transformer';
import { from } from 'rxjs';
import { useStores } from '../../support/http/combinations.js';
import type { Scenario } from '../../support/http/scenario.js';
import { useServer } from '../../support/servers/use-server.js';
import { ask, codesIn, startGraphqlApp } from './support/graphql-app.js';
import { InScenario } from './support/in-scenario.js';

@ObjectType()
class Order {
  @Field(() => Int)
  execution!: number;

  @Field(() => String, { nullable: true })
  note?: string | null;

  @Field(() => GraphQLISODateTime, { nullable: true })
  at?: Date | string;

  @Field(() => String, { nullable: true })
  atAsText?: Date | string;

  @Field(() => String, { nullable: true })
  title?: string;
}

/** A domain object, part of whose content comes from a getter. */
class OrderEntity {
  constructor(readonly execution: number) {}

  get title(): string {
    return `Order ${this.execution}`;
  }
}

@ObjectType()
class Paid {
  kind = 'paid';

  @Field(() => Int)
  execution!: number;
}

@ObjectType()
class Declined {
  kind = 'declined';

  @Field(() => String)
  reason!: string;
}

const ByClass = createUnionType({ name: 'ByClass', types: () => [Paid, Declined] as const });

const ByMember = createUnionType({
  name: 'ByMember',
  types: () => [Paid, Declined] as const,
  resolveType: ({ kind }: { kind: string }) => (kind === 'paid' ? Paid : Declined),
});

const AT = new Date('2026-11-22T01:02:03.456Z');

class Account {
  readonly title = 'to be seen';

  @Exclude()
  readonly note = 'to be hidden';

  constructor(readonly execution: number) {}
}

let reads = 0;

@Resolver(() => Order)
class OrdersResolver {
  @Mutation(() => Order)
  @Idempotent()
  async order(@InScenario() scenario: Scenario): Promise<Order> {
    return { execution: await scenario.run(), note: null };
  }

  @Mutation(() => Order)
  @Idempotent()
  async orderEntity(@InScenario() scenario: Scenario): Promise<Order> {
    return new OrderEntity(await scenario.run());
  }

  @Mutation(() => Order)
  @UseInterceptors(ClassSerializerInterceptor)
  @Idempotent()
  async account(@InScenario() scenario: Scenario): Promise<Account> {
    return new Account(await scenario.run());
  }

  @Mutation(() => Order)
  @Idempotent({ outcome: { codec: jsonCodec({ dates: 'text' }) } })
  async orderWithTextDate(@InScenario() scenario: Scenario): Promise<Order> {
    return { execution: await scenario.run(), at: AT, atAsText: AT };
  }

  @Mutation(() => Order)
  @Idempotent({ outcome: { codec: messagePackCodec() } })
  async orderWithDate(@InScenario() scenario: Scenario): Promise<Order> {
    return { execution: await scenario.run(), at: AT };
  }

  @Mutation(() => [Order])
  @Idempotent()
  observedOrders(@InScenario() scenario: Scenario) {
    return from([scenario.run().then((execution) => [{ execution }, { execution }])]);
  }

  @Mutation(() => Boolean, { nullable: true })
  @Idempotent()
  async nothing(
    @InScenario() scenario: Scenario,
    @Args('how') how: string,
  ): Promise<boolean | null | undefined> {
    await scenario.run();
    return { true: true, false: false, null: null }[how];
  }

  @Mutation(() => ByClass, { nullable: true })
  @Idempotent()
  async payByClass(@InScenario() scenario: Scenario): Promise<Paid> {
    return Object.assign(new Paid(), { execution: await scenario.run() });
  }

  @Mutation(() => ByMember)
  @Idempotent()
  async payByMember(@InScenario() scenario: Scenario): Promise<Paid> {
    return Object.assign(new Paid(), { execution: await scenario.run() });
  }

  @ResolveField(() => Int)
  reads(): number {
    reads += 1;
    return reads;
  }

  @ResolveField(() => String)
  isDate(@Parent() { at }: Order): string {
    return at instanceof Date ? 'a Date' : typeof at;
  }
}

const stores = useStores();

describe.each(['memory', 'redis'] as const)('the value of a mutation, kept in %s', (kind) => {
  const app = useServer(() =>
    startGraphqlApp({ store: stores.fresh(kind), resolvers: [OrdersResolver] }),
  );

  const askFor = (scenario: Scenario, field: string, selection = '') =>
    ask(scenario, `mutation { field: ${field} ${selection} }`);

  it('is selected from again by each retry', async () => {
    const scenario = app.scenario();
    const first = await askFor(scenario, 'order', '{ execution }');
    const second = await askFor(scenario, 'order', '{ note same: execution __typename }');
    expect(first.data).toEqual({ field: { execution: 1 } });
    expect(second.data).toEqual({ field: { note: null, same: 1, __typename: 'Order' } });
    expect(scenario.executions).toBe(1);
  });

  it('passes through the field resolvers at each retry', async () => {
    const scenario = app.scenario();
    const first = await askFor(scenario, 'order', '{ execution reads }');
    const second = await askFor(scenario, 'order', '{ execution reads }');
    const firstRead = first.data.field.reads as number;
    expect(second.data.field).toEqual({ execution: 1, reads: firstRead + 1 });
  });

  it('has Date instances again with a codec that keeps them', async () => {
    const scenario = app.scenario();
    const first = await askFor(scenario, 'orderWithDate', '{ execution at isDate }');
    expect(first.data).toEqual({
      field: { execution: 1, at: AT.toISOString(), isDate: 'a Date' },
    });
    expect(await askFor(scenario, 'orderWithDate', '{ execution at isDate }')).toEqual(first);
    expect(scenario.executions).toBe(1);
  });

  it('has strings for dates with the JSON codec, which only a String field can return', async () => {
    const scenario = app.scenario();
    const first = await askFor(scenario, 'orderWithTextDate', '{ atAsText at isDate }');
    // Nest's scalar returns null, and no error, for a value that is not a Date.
    expect(first.data).toEqual({
      field: { atAsText: AT.toISOString(), at: null, isDate: 'string' },
    });
    expect(await askFor(scenario, 'orderWithTextDate', '{ atAsText at isDate }')).toEqual(first);
  });

  it('is reduced to its own members, also for the first caller', async () => {
    const scenario = app.scenario();
    const first = await askFor(scenario, 'orderEntity', '{ execution title }');
    expect(first.data).toEqual({ field: { execution: 1, title: null } });
    expect(await askFor(scenario, 'orderEntity', '{ execution title }')).toEqual(first);
  });

  it('is what a serializer inside the interceptor returns', async () => {
    const scenario = app.scenario();
    const first = await askFor(scenario, 'account', '{ execution title note }');
    expect(first.data).toEqual({ field: { execution: 1, title: 'to be seen', note: null } });
    expect(await askFor(scenario, 'account', '{ execution title note }')).toEqual(first);
  });

  it('gets its type in a union from a member, not from its class', async () => {
    const scenario = app.scenario();
    const selection = '{ __typename ... on Paid { execution } }';
    const paid = await askFor(scenario, 'payByMember', selection);
    expect(paid.data).toEqual({ field: { __typename: 'Paid', execution: 1 } });
    expect(await askFor(scenario, 'payByMember', selection)).toEqual(paid);
    const byClass = app.scenario();
    const untyped = await askFor(byClass, 'payByClass', selection);
    expect(untyped.errors![0]!.message).toContain('cannot be resolved');
  });

  it('is the last value of an Observable', async () => {
    const scenario = app.scenario();
    const first = await askFor(scenario, 'observedOrders', '{ execution }');
    expect(first.data).toEqual({ field: [{ execution: 1 }, { execution: 1 }] });
    expect(await askFor(scenario, 'observedOrders', '{ execution }')).toEqual(first);
    expect(scenario.executions).toBe(1);
  });

  it.each(['true', 'false', 'null', 'undefined'])('may be %s', async (how) => {
    const scenario = app.scenario();
    const first = await askFor(scenario, `nothing(how: "${how}")`);
    expect(first.data).toEqual({ field: { true: true, false: false }[how] ?? null });
    expect(await askFor(scenario, `nothing(how: "${how}")`)).toEqual(first);
    expect(scenario.executions).toBe(1);
  });

  it('is kept when a field below it fails', async () => {
    const scenario = app.scenario();
    const first = await askFor(scenario, 'payByClass', '{ __typename }');
    expect(Object.keys(codesIn(first))).toEqual(['field']);
    await askFor(scenario, 'payByClass', '{ __typename }');
    expect(scenario.executions).toBe(1);
  });
});
