import { DirectiveLocation, GraphQLDirective, GraphQLNonNull, GraphQLString } from 'graphql';

/**
 * `@idempotent(key: "…")`, by which a document gives one of its mutation fields a key:
 * `directive @idempotent(key: String!) on FIELD`.
 *
 * @example
 * ```ts
 * GraphQLModule.forRoot({ buildSchemaOptions: { directives: [idempotentDirective] }, … })
 * ```
 */
export const idempotentDirective = new GraphQLDirective({
  name: 'idempotent',
  description:
    'Runs a mutation once per key and caller, and gives every repetition what the first run returned.',
  locations: [DirectiveLocation.FIELD],
  args: {
    key: {
      type: new GraphQLNonNull(GraphQLString),
      description: 'New for every intended operation, and the same on every retry of it.',
    },
  },
});
