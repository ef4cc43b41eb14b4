import {
  Body,
  Controller,
  Get,
  Injectable,
  Post,
  type INestApplication,
  type ModuleMetadata,
} from '@nestjs/common';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { Args, GraphQLModule, Mutation, Query, Resolver } from '@nestjs/graphql';
import {
  ClientProxyFactory,
  EventPattern,
  MessagePattern,
  Payload,
  Transport,
  type ClientProxy,
  type MicroserviceOptions,
} from '@nestjs/microservices';
import { IoAdapter } from '@nestjs/platform-socket.io';
import { Test, type TestingModuleBuilder } from '@nestjs/testing';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import {
  currentIdempotencyContext,
  IdempotencyContext,
  IdempotencyService,
  Idempotent,
  requireIdempotencyContext,
} from 'nestjs-idempotency';
import { lastValueFrom } from 'rxjs';
import { freePort } from '../../../support/servers/free-port.js';
import { connectSocketIo, type SocketIoClient } from '../../socket/support/socket-client.js';

/** A charge: the transport it came by, and the attempt's context. */
export interface Charge {
  readonly by: string;
  readonly operation: string;
  readonly isProtected: boolean;
  readonly isTakeover: boolean;
  readonly attempt: number;
  readonly fencingToken: number;
  readonly aborted: boolean;
  readonly ambient: boolean;
}

@Injectable()
export class Ledger {
  readonly charges: Charge[] = [];

  charge(by: string, context: IdempotencyContext): { readonly nr: number } {
    const { operation, isProtected, isTakeover, attempt, fencingToken, signal } = context;
    const ambient = currentIdempotencyContext() === context;
    const { aborted } = signal;
    this.charges.push({
      ...{ by, operation, isProtected, isTakeover, attempt, fencingToken, aborted, ambient },
    });
    return { nr: this.charges.length };
  }
}

@Controller('orders')
export class OrdersController {
  constructor(private readonly ledger: Ledger) {}

  @Post()
  @Idempotent()
  create(@Body() _order: object, @IdempotencyContext() context: IdempotencyContext) {
    return this.ledger.charge('http', context);
  }

  @Get()
  @Idempotent()
  list(): { readonly charges: number; readonly isIdempotent: boolean } {
    const isIdempotent = currentIdempotencyContext() !== undefined;
    return { charges: this.ledger.charges.length, isIdempotent };
  }
}

@Controller()
export class OrdersConsumer {
  constructor(private readonly ledger: Ledger) {}

  @MessagePattern('price')
  @Idempotent({ message: { consumer: 'shop' } })
  price(@Payload() _order: object, @IdempotencyContext() context: IdempotencyContext) {
    return this.ledger.charge('message', context);
  }

  @EventPattern('placed')
  @Idempotent({ message: { consumer: 'shop' } })
  placed(@Payload() _order: object): void {
    this.ledger.charge('event', requireIdempotencyContext());
  }
}

@Resolver()
export class OrdersResolver {
  constructor(private readonly ledger: Ledger) {}

  @Query(() => Boolean)
  isOpen(): boolean {
    return true;
  }

  @Mutation(() => Number)
  @Idempotent()
  pay(@Args('amount') _amount: number, @IdempotencyContext() context: IdempotencyContext): number {
    return this.ledger.charge('graphql', context).nr;
  }
}

@WebSocketGateway()
export class OrdersGateway {
  constructor(private readonly ledger: Ledger) {}

  @SubscribeMessage('order')
  @Idempotent()
  order(@MessageBody() _order: object, @IdempotencyContext() context: IdempotencyContext) {
    return { event: 'ordered', data: this.ledger.charge('socket', context) };
  }
}

@Injectable()
export class InvoiceService {
  constructor(
    private readonly ledger: Ledger,
    private readonly idempotency: IdempotencyService,
  ) {}

  @Idempotent({ key: (id: string) => id })
  async send(_id: string): Promise<{ readonly nr: number }> {
    const context = currentIdempotencyContext();
    return Promise.resolve(this.ledger.charge('method', context!));
  }

  async remind(id: string): Promise<{ readonly nr: number }> {
    return this.idempotency.run({ operation: 'remind', key: id, scope: 'shop' }, (context) =>
      this.ledger.charge('call', context),
    );
  }
}

/** A shop with every transport, as an application has it, without the library's module. */
export const shop = {
  controllers: [OrdersController, OrdersConsumer],
  providers: [Ledger, InvoiceService, OrdersResolver, OrdersGateway],
  imports: [
    GraphQLModule.forRoot<ApolloDriverConfig>({
      driver: ApolloDriver,
      autoSchemaFile: true,
      graphiql: false,
    }),
  ],
} satisfies ModuleMetadata;

export interface Shop {
  readonly app: INestApplication;
  readonly ledger: Ledger;
  /** Calls a protected operation by every transport, with or without a key. */
  readonly ways: Readonly<Record<string, (key: string | undefined) => Promise<unknown>>>;
  close(): Promise<void>;
}

/** @param idempotency - the library's module, or a replacement. */
export function testShop(idempotency: NonNullable<ModuleMetadata['imports']>[number]) {
  return Test.createTestingModule({ ...shop, imports: [...shop.imports, idempotency] });
}

/** Starts the shop: HTTP, GraphQL and socket.io on one port, messages on another. */
export async function startShop(builder: TestingModuleBuilder): Promise<Shop> {
  const app = (await builder.compile()).createNestApplication();
  app.useWebSocketAdapter(new IoAdapter(app));
  const tcp = { transport: Transport.TCP, options: { host: '127.0.0.1', port: await freePort() } };
  app.connectMicroservice<MicroserviceOptions>(tcp as MicroserviceOptions, {
    inheritAppConfig: true,
  });
  await app.startAllMicroservices();
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  const client = ClientProxyFactory.create({ ...tcp, transport: Transport.TCP });
  const socket = await connectSocketIo(Number(new URL(url).port));
  return {
    app,
    ledger: app.get(Ledger),
    ways: waysInto(app, url, client, socket),
    close: async () => {
      await client.close();
      await socket.close();
      await app.close();
    },
  };
}

function waysInto(
  app: INestApplication,
  url: string,
  client: ClientProxy,
  socket: SocketIoClient,
): Shop['ways'] {
  const send = (pattern: string, key: string | undefined) => {
    client.setOnDispatchHook((packet) => {
      if (key !== undefined) Object.assign(packet, { metadata: { 'idempotency-key': key } });
    });
    return { pattern, data: { amount: 1 } };
  };
  const post = async (path: string, key: string | undefined, body: object): Promise<unknown> => {
    const response = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(key !== undefined && { 'idempotency-key': `"${key}"` }),
      },
      body: JSON.stringify(body),
    });
    return response.json();
  };
  return {
    http: (key) => post('/orders', key, { amount: 1 }),
    message: (key) => {
      const { pattern, data } = send('price', key);
      return lastValueFrom(client.send<unknown>(pattern, data));
    },
    socket: async (key) => {
      const payload = { amount: 1, ...(key !== undefined && { idempotencyKey: key }) };
      const { data } = (await socket.ask('order', payload)) as { data: unknown };
      return data;
    },
    graphql: async (key) => {
      const { data } = (await post('/graphql', key, { query: 'mutation { pay(amount: 1) }' })) as {
        data: { pay: number };
      };
      return { nr: data.pay };
    },
    method: (key) => app.get(InvoiceService).send(key ?? ''),
    call: (key) => app.get(InvoiceService).remind(key ?? ''),
  };
}
