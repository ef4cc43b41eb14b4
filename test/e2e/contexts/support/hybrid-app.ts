import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import {
  applyDecorators,
  Body,
  Controller,
  Post,
  UseInterceptors,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import {
  Args,
  GraphQLModule,
  Int,
  Mutation,
  Query,
  Resolver,
  Scalar,
  type CustomScalar,
} from '@nestjs/graphql';
import {
  ClientProxyFactory,
  MessagePattern,
  Payload,
  Transport,
  type MicroserviceOptions,
} from '@nestjs/microservices';
import { WsAdapter } from '@nestjs/platform-ws';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import {
  Idempotent,
  type IdempotencyModuleOptions,
  type IdempotencyOptions,
} from 'nestjs-idempotency';
import { lastValueFrom } from 'rxjs';
import type { Platform } from '../../../support/http/combinations.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import { freePort } from '../../../support/servers/free-port.js';
import { connectClient } from '../../socket/support/socket-client.js';

/** A way in to the same operation: one type of Nest's execution context each. */
export type ContextName = 'http' | 'graphql' | 'rpc' | 'ws';

/** One number for each run, whatever the way in. */
export type Work = (content: Readonly<Record<string, unknown>>) => Promise<number> | number;

export interface Asking {
  /** Of HTTP and GraphQL. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The content of a message, the body of a request, the argument `input` of a field. */
  readonly content: Readonly<Record<string, unknown>>;
}

export type Answer = { readonly value: number } | { readonly code: string; readonly text: string };

export interface HybridApp extends Pick<TestApp, 'nest' | 'close'> {
  readonly contexts: readonly ContextName[];
  ask(context: ContextName, asking: Asking): Promise<Answer>;
}

export interface StartHybridApp {
  readonly platform: Platform;
  readonly options: IdempotencyModuleOptions;
  readonly work: Work;
  /** Of each handler. */
  readonly own?: IdempotencyOptions;
  /** Outside of each handler's operation. */
  readonly around?: NestInterceptor;
}

class AnyValue {
  readonly value: unknown;
}

@Scalar('Any', () => AnyValue)
class AnyScalar implements CustomScalar<unknown, unknown> {
  parseValue = (value: unknown) => value;
  parseLiteral = () => null;
  serialize = (value: unknown) => value;
}

/** Of a guard, for HTTP and GraphQL: whom the header `authorization` names. */
const callers = {
  canActivate(context: ExecutionContext): boolean {
    const request =
      context.getType<string>() === 'graphql'
        ? context.getArgByIndex<{ req: Request }>(2).req
        : context.switchToHttp().getRequest<Request>();
    const id = context.getType() === 'ws' ? undefined : request.headers.authorization;
    if (id !== undefined) request.user = { id };
    return true;
  },
};

interface Request {
  readonly headers: { readonly authorization?: string };
  user?: object;
}

/** One application with a route, a mutation, a message handler and a gateway. Apollo is installed for Express alone. */
export async function startHybridApp({
  platform,
  options,
  work,
  own = {},
  around,
}: StartHybridApp): Promise<HybridApp> {
  const Protected = (options: IdempotencyOptions) =>
    applyDecorators(...(around ? [UseInterceptors(around)] : []), Idempotent(options));

  @Controller()
  class Route {
    @Post('pay')
    @Protected(own)
    async pay(@Body() content: object) {
      return { value: await work({ ...content }) };
    }
  }

  @Controller()
  class Consumer {
    @MessagePattern('pay')
    @Protected({ ...own, operation: 'billing.pay', message: { consumer: 'billing' } })
    pay(@Payload() content: object) {
      return work({ ...content });
    }
  }

  @WebSocketGateway()
  class Gateway {
    @SubscribeMessage('pay')
    @Protected(own)
    async pay(@MessageBody() content: object) {
      return { event: 'paid', data: await work({ ...content }) };
    }
  }

  @Resolver()
  class Mutations {
    @Query(() => Boolean)
    isHealthy() {
      return true;
    }

    @Mutation(() => Int)
    @Protected(own)
    pay(@Args('input', { type: () => AnyValue }) input: object) {
      return work({ ...input });
    }
  }

  const hasGraphql = platform === 'express';
  const tcp = { host: '127.0.0.1', port: await freePort() };
  const { store, ...others } = options;
  const app = await startApp({
    platform,
    store,
    options: others,
    controllers: [Route, Consumer],
    providers: [Gateway, ...(hasGraphql ? [AnyScalar, Mutations] : [])],
    imports: hasGraphql
      ? [
          GraphQLModule.forRoot<ApolloDriverConfig>({
            driver: ApolloDriver,
            autoSchemaFile: true,
            graphiql: false,
            includeStacktraceInErrorResponses: false,
          }),
        ]
      : [],
    guard: callers,
    configure: async (nest) => {
      nest.useWebSocketAdapter(new WsAdapter(nest));
      nest.connectMicroservice<MicroserviceOptions>({ transport: Transport.TCP, options: tcp });
      await nest.startAllMicroservices();
    },
  });
  const { nest, port } = app;
  const rpc = ClientProxyFactory.create({ transport: Transport.TCP, options: tcp });
  const post = async (path: string, { headers = {} }: Asking, body: object) => {
    const response = await fetch(`http://127.0.0.1:${port}/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
    return (await response.json()) as Record<string, any>;
  };
  const ways: Record<ContextName, (asking: Asking) => Promise<Answer>> = {
    http: async (asking) => {
      const body = await post('pay', asking, asking.content);
      return body.code === undefined
        ? { value: body.value as number }
        : { code: body.code as string, text: JSON.stringify(body) };
    },
    graphql: async (asking) => {
      const query = 'mutation Pay($input: Any!) { pay(input: $input) }';
      const body = await post('graphql', asking, { query, variables: { input: asking.content } });
      if (body.errors === undefined) return { value: body.data.pay as number };
      return { code: String(body.errors[0].extensions.code), text: JSON.stringify(body.errors) };
    },
    rpc: ({ content }) =>
      lastValueFrom(rpc.send<number>('pay', content)).then(
        (value) => ({ value }),
        (error: unknown) => ({
          code: String((error as { code?: unknown }).code),
          text: JSON.stringify(error),
        }),
      ),
    ws: async ({ content }) => {
      const client = await connectClient('ws', port);
      const { event, data } = (await client.ask('pay', content)) as { event: string; data: any };
      await client.close();
      return event === 'paid'
        ? { value: data as number }
        : { code: String(data.code), text: JSON.stringify(data) };
    },
  };
  return {
    nest,
    contexts: hasGraphql ? ['http', 'graphql', 'rpc', 'ws'] : ['http', 'rpc', 'ws'],
    ask: (context, asking) => ways[context](asking),
    close: async () => {
      await rpc.close();
      await app.close();
    },
  };
}
