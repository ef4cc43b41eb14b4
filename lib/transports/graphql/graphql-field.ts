import type { ExecutionContext } from '@nestjs/common';

/** The field that a resolver is called for, and who asks. */
export interface GraphqlField {
  /** As the resolver gets them, before pipes. */
  readonly args: Readonly<Record<string, unknown>>;
  readonly info: FieldInfo;
  /** The HTTP request, where GraphQL's context has it; a message of a WebSocket has none. */
  readonly request: FieldRequest | undefined;
  /** Whom the guards have found out. */
  readonly user: unknown;
}

/** The part of a `GraphQLResolveInfo` that is needed here; by its shape, for the library does not depend on `graphql`. */
export interface FieldInfo {
  readonly fieldName: string;
  /** The field's alias, or its name. */
  readonly path: { readonly key: string | number };
}

/** The part of a request that is needed here: Express', Fastify's, or one that was made by hand. */
export interface FieldRequest {
  readonly user?: unknown;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly rawHeaders?: readonly string[];
  /** HTTP/2's way to the caller, which ends with the request. */
  readonly stream?: unknown;
  readonly socket?: unknown;
  /** Node's request, below Fastify's. */
  readonly raw?: FieldRequest;
}

/** What Nest's drivers put into the context, and what applications do. */
interface FieldContext {
  readonly req?: FieldRequest;
  readonly user?: unknown;
}

/** Reads the arguments that every root resolver is called with. */
export function fieldOf(context: ExecutionContext): GraphqlField {
  const [, args, shared, info] =
    context.getArgs<[unknown, GraphqlField['args'], FieldContext | undefined, FieldInfo]>();
  const request = shared?.req;
  return { args, info, request, user: request?.user ?? shared?.user };
}
