import { DirectiveLocation, GraphQLDirective, GraphQLNonNull, GraphQLString } from 'graphql';
import { newIdempotentDirective } from './new-directive.js';

/**
 * `@idempotent(key: "…")`, by which a document gives one of its mutation fields a key:
 * `directive @idempotent(key: String!) on FIELD`.
 *
 * @example
 * ```ts
 * GraphQLModule.forRoot({ buildSchemaOptions: { directives: [idempotentDirective] }, … })
 * ```
 */
export const idempotentDirective: GraphQLDirective = newIdempotentDirective({
  DirectiveLocation,
  GraphQLDirective,
  GraphQLNonNull,
  GraphQLString,
});
