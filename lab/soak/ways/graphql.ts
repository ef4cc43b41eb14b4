import { UseInterceptors } from '@nestjs/common';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { Args, GraphQLModule, Int, Mutation, Query, Resolver } from '@nestjs/graphql';
import { Idempotent } from 'nestjs-idempotency';
import { addOperations, inner, optionsOf, work } from '../operations.js';
import type { Way, WaySettings } from '../setup.js';
import { overConnections, request } from './http.js';
import { listen } from './start.js';

@Resolver()
class OrdersResolver {
  /** A document needs a query. */
  @Query(() => Boolean)
  isHealthy(): boolean {
    return true;
  }
}

addOperations(
  OrdersResolver,
  (kind) => (amount: number) => work({ kind, amount }),
  (kind) => [
    Reflect.metadata('design:paramtypes', [Number, String]),
    [Args('amount', { type: () => Int }), Args('idempotencyKey', { type: () => String })],
    Idempotent(optionsOf(kind)),
    ...(kind === 'inner' ? [UseInterceptors(inner('early'))] : []),
    Mutation(() => String, { nullable: true }),
  ],
);

export async function overGraphql(settings: WaySettings): Promise<Way> {
  const app = await listen(settings, {
    providers: [OrdersResolver],
    imports: [
      GraphQLModule.forRoot<ApolloDriverConfig>({
        driver: ApolloDriver,
        autoSchemaFile: true,
        graphiql: false,
      }),
    ],
  });
  return overConnections(app, ({ kind, key, amount }) => {
    // By variables: Apollo keeps each document that it has not seen.
    const query = `mutation ($amount: Int!, $key: String!) { ${kind}(amount: $amount, idempotencyKey: $key) }`;
    return request('/graphql', { query, variables: { amount, key } });
  });
}
