import {
  Controller,
  Get,
  Head,
  Module,
  Post,
  RequestMethod,
  Res,
  Scope,
  SetMetadata,
  Sse,
  UseGuards,
  type CanActivate,
  type ControllerOptions,
  type INestApplication,
  type Provider,
  type Type,
} from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { SubscribeMessage } from '@nestjs/websockets';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Idempotent, IdempotencyModule } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { declared } from '../support/declared.js';
import { LoggedLines } from '../../../support/nest/logged-lines.js';

let app: INestApplication | undefined;

afterEach(async () => {
  await app?.close();
  app = undefined;
});

function moduleNamed(name: string): Type {
  @Module({})
  class Named {}
  return Object.defineProperty(Named, 'name', { value: name });
}

async function create(
  modules: Readonly<Record<string, Type>>,
  providers: Provider[] = [],
): Promise<LoggedLines> {
  const lines = new LoggedLines();
  const imports = Object.entries(modules).map(([name, controller]) => ({
    module: moduleNamed(name),
    controllers: [controller],
  }));
  app = await NestFactory.create(
    {
      module: moduleNamed('AppModule'),
      imports: [IdempotencyModule.forRoot({ store: memoryStore() }), ...imports],
      providers,
    },
    { logger: lines, abortOnError: false },
  );
  return lines;
}

/** The warnings of the library for an application that is initialized but does not listen. */
async function said(...controllers: Type[]): Promise<string[]> {
  const modules = controllers.map((controller, i) => [`Module${i}`, controller] as const);
  const lines = await create(Object.fromEntries(modules));
  await app?.init();
  return lines.own;
}

const things = (methods: Record<string, MethodDecorator[]>, ...ofClass: ClassDecorator[]) =>
  declared('Things', [Controller('things'), ...ofClass], methods);

describe('@Idempotent() on a class', () => {
  it('does not affect event streams and other safe routes', async () => {
    const idempotent = Idempotent({ operation: 'things.make', lease: { onTakeover: () => 'run' } });
    const type = things({ events: [Sse('events')], list: [Get()], make: [Post()] }, idempotent);
    // It shows that the response is the route's own.
    Res()(type.prototype as object, 'list', 0);
    expect(await said(type)).toEqual([]);
  });

  it('stops the start with a stream that is read by POST', async () => {
    const stream = Sse('events', { method: RequestMethod.POST });
    const message = 'Things.events is an @Sse() route';
    await expect(said(things({ events: [stream] }, Idempotent()))).rejects.toThrow(message);
  });
});

describe('a warning at the start', () => {
  it('reports @Idempotent() on methods whose requests are never protected', async () => {
    const type = things({
      find: [Get(':id'), Idempotent()],
      lookUp: [Head(), Idempotent()],
      list: [Get(), Idempotent({ enabled: false })],
    });
    expect(await said(type)).toEqual([
      expect.stringMatching(/^warn: .*Things\.find \(GET \/things\/:id, in Module0\).*no effect/),
      expect.stringMatching(/^warn: .*Things\.lookUp \(HEAD \/things, in Module0\).*no effect/),
    ]);
  });

  it('reports two with different options', async () => {
    const leases = (...each: number[]) =>
      each.map((leaseMs) => Idempotent({ lease: { durationMs: leaseMs } }));
    const methods = {
      twice: [Post('twice'), ...leases(10_000, 20_000)],
      alike: [Post('alike'), ...leases(10_000, 10_000)],
    };
    expect(await said(things(methods, Idempotent({ key: { required: false } })))).toEqual([
      expect.stringMatching(/^warn: .*Things\.twice more than once, with different options/),
    ]);
  });

  it('reports a class of two modules once', async () => {
    const type = things({ find: [Get(), Idempotent()] });
    expect(await said(type, type)).toEqual([expect.stringContaining('in Module0 and Module1')]);
  });
});

describe("caller.anonymous: 'shared'", () => {
  class TokenGuard implements CanActivate {
    canActivate(): boolean {
      return true;
    }
  }
  /** Limits requests, and authenticates none. */
  class ThrottlerGuard extends TokenGuard {}
  class OwnThrottlerGuard extends ThrottlerGuard {}

  const shared = Idempotent({ caller: { anonymous: 'shared' } });
  const warning = (guard: string) =>
    expect.stringMatching(
      new RegExp(
        `^warn: Things\\.make \\(POST /things/make, in Module0\\) has a guard \\(${guard}\\) and .*'shared'.*Leave 'shared' out`,
      ),
    );

  it.each<[string, Type]>([
    ['the method', things({ make: [Post('make'), UseGuards(TokenGuard), shared] })],
    [
      'the method, as an instance',
      things({ make: [Post('make'), shared, UseGuards(new TokenGuard())] }),
    ],
    ['the class', things({ make: [Post('make'), shared] }, UseGuards(TokenGuard))],
    [
      'the class, with both decorators',
      things({ make: [Post('make')] }, UseGuards(TokenGuard), shared),
    ],
  ])('causes a warning where a guard is on %s', async (_, type) => {
    expect(await said(type)).toEqual([warning('TokenGuard')]);
  });

  it.each<[string, Provider | undefined]>([
    ['useGlobalGuards()', undefined],
    ['APP_GUARD', { provide: APP_GUARD, useClass: TokenGuard }],
    [
      'APP_GUARD, of each request',
      { provide: APP_GUARD, useClass: TokenGuard, scope: Scope.REQUEST },
    ],
  ])('causes a warning where a guard is bound by %s', async (_, guard) => {
    const lines = await create(
      { Module0: things({ make: [Post('make'), shared] }) },
      guard === undefined ? [] : [guard],
    );
    if (guard === undefined) app?.useGlobalGuards(new TokenGuard());
    await app?.init();
    expect(lines.own).toEqual([warning('TokenGuard')]);
  });

  it('causes a warning on a gateway and a mutation, too', async () => {
    const ws = [SubscribeMessage('pay'), UseGuards(TokenGuard), shared];
    const lines = await create({}, [
      declared('Gateway', [], { pay: ws }),
      declared('Payments', [], {
        pay: [SetMetadata('graphql:resolver_type', 'Mutation'), UseGuards(TokenGuard), shared],
      }),
    ]);
    await app?.init();
    expect(lines.own).toEqual([
      expect.stringContaining('Gateway.pay'),
      expect.stringContaining('Payments.pay'),
    ]);
  });

  it('causes none without a guard, where nothing is protected, and where a guard only limits requests', async () => {
    const type = things(
      {
        open: [Post('open'), shared],
        off: [
          Post('off'),
          UseGuards(TokenGuard),
          Idempotent({ enabled: false, caller: { anonymous: 'shared' } }),
        ],
        read: [Get('read'), UseGuards(TokenGuard)],
        limited: [Post('limited'), UseGuards(OwnThrottlerGuard), shared],
        known: [Post('known'), UseGuards(TokenGuard), Idempotent()],
      },
      Idempotent({ caller: { anonymous: 'reject' } }),
    );
    expect(await said(type)).toEqual([]);
  });
});

describe('two controllers with one name', () => {
  const controller = (options: ControllerOptions, path: string) =>
    declared('Things', [Controller(options)], { make: [Post(path), Idempotent()] });

  it('are identified by path and module', async () => {
    const types = ['v1', 'v2'].map((path) => controller({ path }, 'made'));
    await expect(said(...types)).rejects.toThrow(
      'Two operations are named "Things.make": Things.make (POST /v1/made, in Module0) and Things.make (POST /v2/made, in Module1).',
    );
  });

  it('are identified by their versions', async () => {
    const types = ['1', ['2', '3']].map((version) => controller({ path: 'things', version }, ''));
    await expect(said(...types)).rejects.toThrow(
      'Things.make (POST /things (version 1), in Module0) and Things.make (POST /things (version 2, 3), in Module1).',
    );
  });
});

describe('an application that no signal closes', () => {
  const warning = expect.stringContaining('app.enableShutdownHooks()');

  it('causes a warning when it listens, and not before', async () => {
    const lines = await create({});
    await app?.init();
    expect(lines.own).toEqual([]);
    await app?.listen(0, '127.0.0.1');
    await new Promise(setImmediate);
    expect(lines.own).toEqual([warning]);
  });

  it('causes no warning with shutdown hooks, enabled before or after', async () => {
    for (const isBefore of [true, false]) {
      const lines = await create({});
      if (isBefore) app?.enableShutdownHooks();
      await app?.listen(0, '127.0.0.1');
      if (!isBefore) app?.enableShutdownHooks();
      await new Promise(setImmediate);
      expect(lines.own).toEqual([]);
      await app?.close();
    }
  });

  it('causes no warning with a signal handler of its own', async () => {
    const lines = await create({});
    const handler = () => void app?.close();
    process.once('SIGTERM', handler);
    try {
      await app?.listen(0, '127.0.0.1');
      await new Promise(setImmediate);
    } finally {
      process.removeListener('SIGTERM', handler);
    }
    expect(lines.own).toEqual([]);
  });
});
