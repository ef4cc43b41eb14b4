import { afterEach, describe, expect, it } from '@jest/globals';
import {
  ClassSerializerInterceptor,
  Controller,
  Injectable,
  Module,
  Scope,
  UseInterceptors,
  type DynamicModule,
  type INestApplication,
  type INestApplicationContext,
  type INestMicroservice,
  type Type,
} from '@nestjs/common';
import { APP_INTERCEPTOR, NestFactory, Reflector } from '@nestjs/core';
import {
  ClientProxyFactory,
  EventPattern,
  MessagePattern,
  Transport,
  type MicroserviceOptions,
} from '@nestjs/microservices';
import { Exclude } from 'class-transformer';
import { Idempotent, IdempotencyModule } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { lastValueFrom } from 'rxjs';
import { freePort } from '../../support/servers/free-port.js';
import { startConsumer } from './support/start-consumer.js';

class Account {
  readonly name = 'alice';
  @Exclude() readonly secret = 'hidden';
}

const protect = () =>
  Idempotent({ message: { consumer: 'accounts' }, key: () => 'k1', fingerprint: false as const });

@Injectable()
class OwnSerializer extends ClassSerializerInterceptor {}

@Injectable({ scope: Scope.REQUEST })
class RequestsSerializer extends ClassSerializerInterceptor {}

@Controller()
@UseInterceptors(ClassSerializerInterceptor)
class OutsideByClass {
  @protect()
  @MessagePattern('account')
  get() {
    return new Account();
  }
}

@Controller()
class OutsideByMethod {
  @protect()
  @UseInterceptors(OwnSerializer)
  @MessagePattern('account')
  get() {
    return new Account();
  }
}

@Controller()
class Plain {
  @protect()
  @MessagePattern('account')
  get() {
    return new Account();
  }
}

@Controller()
@UseInterceptors(ClassSerializerInterceptor)
class Inside {
  @UseInterceptors(ClassSerializerInterceptor)
  @protect()
  @MessagePattern('account')
  get() {
    return new Account();
  }

  @protect()
  @EventPattern(['account.closed'])
  closed() {
    return new Account();
  }
}

@Module({})
class HybridModule {}

const REJECTED = {
  code: 'idempotency_options_invalid',
  message: expect.stringMatching(/@Exclude\(\) .* above @Idempotent\(\)/),
};

const serializerOf = (own: INestApplicationContext) =>
  new ClassSerializerInterceptor(own.get(Reflector));

describe('a serializer by class', () => {
  let app: INestMicroservice | undefined;
  afterEach(() => app?.close());

  const start = async (
    controller: Type,
    providers: object[] = [],
    configure?: (own: INestMicroservice) => unknown,
  ) => {
    app = undefined;
    const port = await freePort();
    const options = { host: '127.0.0.1', port };
    app = await startConsumer(
      { transport: Transport.TCP, options },
      {
        controllers: [controller],
        providers: providers as Type[],
        options: { store: memoryStore() },
        ...(configure !== undefined && { configure }),
      },
    );
    return ClientProxyFactory.create({ transport: Transport.TCP, options });
  };

  it.each<[string, Type, object[]]>([
    ['on the class', OutsideByClass, []],
    ['below @Idempotent() on the method', OutsideByMethod, []],
    ['for the application', Plain, [{ provide: APP_INTERCEPTOR, useClass: OwnSerializer }]],
    ['for each request', Plain, [{ provide: APP_INTERCEPTOR, useClass: RequestsSerializer }]],
  ])('outside @Idempotent(), %s, prevents the start', async (_, controller, providers) => {
    await expect(start(controller, providers)).rejects.toMatchObject(REJECTED);
  });

  it('outside @Idempotent(), for the microservice by useGlobalInterceptors(), prevents the start', async () => {
    const started = start(Plain, [], (own) => own.useGlobalInterceptors(serializerOf(own)));
    await expect(started).rejects.toMatchObject(REJECTED);
  });

  it('inside @Idempotent() excludes its members, from the first reply and from the replay', async () => {
    const client = await start(Inside);
    const ask = () => lastValueFrom(client.send('account', {}));
    expect(await ask()).toEqual({ name: 'alice' });
    expect(await ask()).toEqual({ name: 'alice' });
    await client.close();
  });
});

describe('a serializer by class of a hybrid application, which its microservices may inherit', () => {
  const startHybrid = async (
    controller: Type,
    providers: Type[],
    configure: (own: INestApplication) => unknown,
  ) => {
    const module: DynamicModule = {
      module: HybridModule,
      imports: [IdempotencyModule.forRoot({ store: memoryStore() })],
      controllers: [controller],
      providers,
    };
    const hybrid = await NestFactory.create(module, { logger: false, abortOnError: false });
    try {
      configure(hybrid);
      const options = { host: '127.0.0.1', port: await freePort() };
      const transport = { transport: Transport.TCP as const, options };
      hybrid.connectMicroservice<MicroserviceOptions>(transport, { inheritAppConfig: true });
      await hybrid.startAllMicroservices();
      const client = ClientProxyFactory.create(transport);
      try {
        return await lastValueFrom(client.send('account', {}));
      } finally {
        await client.close();
      }
    } finally {
      await hybrid.close();
    }
  };

  const appInterceptor = { provide: APP_INTERCEPTOR, useClass: OwnSerializer } as unknown as Type;

  it.each<[string, Type[], (own: INestApplication) => unknown]>([
    ['as a provider', [appInterceptor], () => undefined],
    ['by useGlobalInterceptors()', [], (own) => own.useGlobalInterceptors(serializerOf(own))],
  ])('prevents the start, given %s', async (_, providers, configure) => {
    await expect(startHybrid(Plain, providers, configure)).rejects.toMatchObject(REJECTED);
  });

  it('excludes its members when it is on the method too', async () => {
    const configure = (own: INestApplication) => own.useGlobalInterceptors(serializerOf(own));
    expect(await startHybrid(Inside, [], configure)).toEqual({ name: 'alice' });
  });
});
