import { Args, Field, ID, InputType, Int, Mutation, ObjectType, Resolver } from '@nestjs/graphql';
import { Idempotent } from 'nestjs-idempotency';
import { payloadField } from 'nestjs-idempotency/message';
import type { Scenario } from '../../../support/http/scenario.js';
import { InScenario } from './graphql-app.js';

@ObjectType()
export class Charge {
  @Field(() => Int)
  execution!: number;

  @Field(() => Int)
  amount!: number;
}

@InputType()
export class ChargeInput {
  @Field(() => Int)
  amount!: number;

  @Field(() => String, { nullable: true })
  idempotencyKey?: string;

  @Field(() => String, { nullable: true })
  clientMutationId?: string;
}

const amountArgument = { type: () => Int };
const keyArgument = { type: () => String, nullable: true };
const nullable = { nullable: true };

/** Every mutation has one effect: an execution in the scenario's ledger. */
@Resolver()
export class PaymentsResolver {
  @Mutation(() => Charge, nullable)
  @Idempotent()
  charge(@InScenario() scenario: Scenario, @Args('amount', amountArgument) amount: number) {
    return charged(scenario, amount);
  }

  @Idempotent()
  @Mutation(() => Charge, nullable)
  chargeByArgument(
    @InScenario() scenario: Scenario,
    @Args('amount', amountArgument) amount: number,
    @Args('idempotencyKey', keyArgument) _key: string | null,
  ) {
    return charged(scenario, amount);
  }

  @Mutation(() => Charge, nullable)
  @Idempotent()
  chargeByNumber(
    @InScenario() scenario: Scenario,
    @Args('idempotencyKey', { type: () => Int }) _key: number,
  ) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, nullable)
  @Idempotent()
  chargeById(
    @InScenario() scenario: Scenario,
    @Args('idempotencyKey', { type: () => [ID] }) _keys: string[],
  ) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, nullable)
  @Idempotent()
  chargeByInput(@InScenario() scenario: Scenario, @Args('input') { amount }: ChargeInput) {
    return charged(scenario, amount);
  }

  @Mutation(() => Charge, nullable)
  @Idempotent()
  chargeByEither(
    @InScenario() scenario: Scenario,
    @Args('idempotencyKey', keyArgument) _key: string | null,
    @Args('input') { amount }: ChargeInput,
  ) {
    return charged(scenario, amount);
  }

  @Mutation(() => Charge, nullable)
  @Idempotent({ key: payloadField('input.clientMutationId') })
  chargeByFunction(@InScenario() scenario: Scenario, @Args('input') { amount }: ChargeInput) {
    return charged(scenario, amount);
  }

  @Mutation(() => Charge, nullable)
  @Idempotent({ key: { from: 'X-Request-Key', maxLength: 40 } })
  chargeByOtherHeader(
    @InScenario() scenario: Scenario,
    @Args('idempotencyKey', keyArgument) _key: string | null,
  ) {
    return charged(scenario, 0);
  }

  @Mutation(() => Charge, nullable)
  @Idempotent({ key: { syntax: 'uuid' } })
  chargeByUuid(
    @InScenario() scenario: Scenario,
    @Args('idempotencyKey', keyArgument) _key: string | null,
  ) {
    return charged(scenario, 0);
  }
}

export async function charged(scenario: Scenario, amount: number): Promise<Charge> {
  const execution = await scenario.run();
  if (scenario.planned(execution) === 'fail') throw new Error('planned');
  return { execution, amount };
}
