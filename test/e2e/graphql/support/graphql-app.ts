import type { IncomingMessage } from 'node:http';
import {
  createParamDecorator,
  type CanActivate,
  type ExecutionContext,
  type INestApplication,
  type Type,
} from '@nestjs/common';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { GraphQLModule, Query, Resolver } from '@nestjs/graphql';
import type { IdempotencyModuleOptions } from 'nestjs-idempotency';
import { scenarioOf, type Scenario, type Sending } from '../../../support/http/scenario.js';
import { startApp, type StartAppOptions, type TestApp } from '../../../support/http/start-app.js';

interface RequestInContext {
  readonly req: IncomingMessage & { user?: object };
}

/** The request in a resolver's context, as the Apollo driver sets it. */
export function requestIn(context: ExecutionContext): RequestInContext['req'] {
  return context.getArgByIndex<RequestInContext>(2).req;
}

/** The scenario of the document. */
export const InScenario = createParamDecorator((_: unknown, context: ExecutionContext): Scenario =>
  scenarioOf(requestIn(context)),
);

const USERS: Readonly<Record<string, object>> = {
  alice: { id: 'alice' },
  bob: { id: 'bob' },
};

/** Sets the user that the bearer token names, and rejects the users that the scenario forbids. */
class Callers implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = requestIn(context);
    const scenario = scenarioOf(request);
    scenario.arrived.add();
    request.socket.once('close', () => scenario.disconnected.add());
    const token = /^Bearer (.+)$/.exec(String(request.headers.authorization))?.[1];
    const user = token === undefined ? undefined : USERS[token];
    if (user !== undefined) request.user = user;
    return !scenario.forbidden.has(token);
  }
}

export interface StartGraphqlAppOptions {
  readonly store: IdempotencyModuleOptions['store'];
  readonly resolvers: Type[];
  readonly options?: Omit<IdempotencyModuleOptions, 'store'>;
  readonly more?: Pick<StartAppOptions, 'imports' | 'isOutermost'>;
  readonly guard?: CanActivate;
  /** Settings of the Apollo driver. */
  readonly driver?: Partial<ApolloDriverConfig>;
  /** Adds the pipes, filters and interceptors of an application. */
  readonly configure?: (app: INestApplication) => unknown;
}

/** A schema must have a query. */
@Resolver()
class HealthResolver {
  @Query(() => Boolean)
  isHealthy(): boolean {
    return true;
  }
}

/** A listening Nest application that serves GraphQL with Apollo on Express. */
export function startGraphqlApp(start: StartGraphqlAppOptions): Promise<TestApp> {
  const { store, resolvers, options = {}, driver = {}, guard = new Callers(), configure } = start;
  return startApp({
    platform: 'express',
    store,
    options,
    controllers: [],
    providers: [HealthResolver, ...resolvers],
    guard,
    ...start.more,
    imports: [
      GraphQLModule.forRoot<ApolloDriverConfig>({
        driver: ApolloDriver,
        autoSchemaFile: true,
        graphiql: false,
        includeStacktraceInErrorResponses: false,
        ...driver,
      }),
      ...(start.more?.imports ?? []),
    ],
    ...(configure !== undefined && { configure }),
  });
}

export interface GraphqlResponse {
  readonly status: number;
  readonly data?: any;
  readonly errors?: readonly GraphqlResponseError[];
}

interface GraphqlResponseError {
  readonly message: string;
  readonly path: readonly string[];
  readonly extensions: Readonly<Record<string, unknown>>;
}

export interface Asking extends Sending {
  readonly variables?: Readonly<Record<string, unknown>>;
}

/** Sends a document, with the scenario's key in the header unless another key or `null` is given. */
export async function ask(
  scenario: Scenario,
  query: string,
  { variables, ...sending }: Asking = {},
): Promise<GraphqlResponse> {
  const { status, json } = await scenario.post('/graphql', {
    json: { query, variables },
    ...sending,
  });
  return { status, ...json };
}

/** The error codes, by response name of the field. */
export function codesIn({ errors = [] }: GraphqlResponse): Record<string, unknown> {
  return Object.fromEntries(
    errors.map(({ path, extensions }) => [path.join('.'), extensions.code]),
  );
}
