import type { ExecutionContext } from '@nestjs/common';

/** The field that a resolver is called for, with its request and user. */
export interface GraphqlField {
  /** As the resolver gets them, before pipes. */
  readonly args: Readonly<Record<string, unknown>>;
  readonly info: FieldInfo;
  /** The HTTP request, where GraphQL's context has it; a WebSocket message has none. */
  readonly request: FieldRequest | undefined;
  readonly user: unknown;
}

/** What is used of `GraphQLResolveInfo`, by shape: the library does not depend on `graphql`. */
export interface FieldInfo {
  readonly fieldName: string;
  /** The field's alias, or its name. */
  readonly path: { readonly key: string | number };
}

/** What is used of a request: of Express, of Fastify, or made by hand. */
export interface FieldRequest {
  readonly user?: unknown;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly rawHeaders?: readonly string[];
  /** HTTP/2's stream, which ends with the request. */
  readonly stream?: unknown;
  readonly socket?: unknown;
  /** Node's request, below Fastify's. */
  readonly raw?: FieldRequest;
}

/** What Nest's drivers and applications put into the context. */
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
