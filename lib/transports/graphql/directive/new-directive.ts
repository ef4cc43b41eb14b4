import type { GraphQLDirective } from 'graphql';

/** `@idempotent`, of the classes and types of whichever copy of `graphql` is to read it. */
export function newIdempotentDirective(
  graphql: Pick<
    typeof import('graphql'),
    'DirectiveLocation' | 'GraphQLDirective' | 'GraphQLNonNull' | 'GraphQLString'
  >,
): GraphQLDirective {
  const { DirectiveLocation, GraphQLDirective, GraphQLNonNull, GraphQLString } = graphql;
  return new GraphQLDirective({
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
}
