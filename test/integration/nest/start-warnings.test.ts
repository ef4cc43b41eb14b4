import {
  Controller,
  Get,
  Head,
  Module,
  Post,
  RequestMethod,
  Res,
  Sse,
  type INestApplication,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { afterEach, describe, expect, it } from '@jest/globals';
import { EMPTY } from 'rxjs';
import { Idempotent, IdempotencyModule } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { LoggedLines } from './support/logged-lines.js';

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

async function create(modules: Readonly<Record<string, Type>>): Promise<LoggedLines> {
  const lines = new LoggedLines();
  const imports = Object.entries(modules).map(([name, controller]) => ({
    module: moduleNamed(name),
    controllers: [controller],
  }));
  app = await NestFactory.create(
    {
      module: moduleNamed('AppModule'),
      imports: [IdempotencyModule.forRoot({ store: memoryStore() }), ...imports],
    },
    { logger: lines, abortOnError: false },
  );
  return lines;
}

/** What the library says of an application that is set up and does not listen. */
async function said(...controllers: Type[]): Promise<string[]> {
  const modules = controllers.map((controller, i) => [`Module${i}`, controller] as const);
  const lines = await create(Object.fromEntries(modules));
  await app?.init();
  return lines.own;
}

describe('@Idempotent() on a class', () => {
  it('leaves streams of events and other safe routes alone', async () => {
    @Idempotent({ operation: 'things.make', onTakeover: () => 'run' })
    @Controller('things')
    class Things {
      @Sse('events')
      events() {
        return EMPTY;
      }

      @Get()
      list(@Res() reply: { send(body: unknown): void }) {
        reply.send([]);
      }

      @Post()
      make() {
        return 'made';
      }
    }
    expect(await said(Things)).toEqual([]);
  });

  it('does not start with a stream that is read by POST', async () => {
    @Idempotent()
    @Controller('things')
    class Things {
      @Sse('events', { method: RequestMethod.POST })
      events() {
        return EMPTY;
      }
    }
    await expect(said(Things)).rejects.toThrow('Things.events is an @Sse() route');
  });
});

describe('a warning at the start', () => {
  it('tells of @Idempotent() on methods whose requests are never protected', async () => {
    @Controller('things')
    class Things {
      @Get(':id')
      @Idempotent()
      find() {
        return 'found';
      }

      @Head()
      @Idempotent()
      look() {
        return 'seen';
      }

      @Get()
      @Idempotent({ enabled: false })
      list() {
        return [];
      }
    }
    expect(await said(Things)).toEqual([
      expect.stringMatching(/^warn: .*Things\.find \(GET \/things\/:id, in Module0\).*no effect/),
      expect.stringMatching(/^warn: .*Things\.look \(HEAD \/things, in Module0\).*no effect/),
    ]);
  });

  it('tells of two that have different options', async () => {
    @Idempotent({ required: false })
    @Controller('things')
    class Things {
      @Post('twice')
      @Idempotent({ leaseMs: 10_000 })
      @Idempotent({ leaseMs: 20_000 })
      twice() {
        return 'made';
      }

      @Post('alike')
      @Idempotent({ leaseMs: 10_000 })
      @Idempotent({ leaseMs: 10_000 })
      alike() {
        return 'made';
      }
    }
    expect(await said(Things)).toEqual([
      expect.stringMatching(/^warn: .*Things\.twice more than once, with different options/),
    ]);
  });

  it('tells once of a class that two modules have', async () => {
    @Controller('things')
    class Things {
      @Get()
      @Idempotent()
      find() {
        return 'found';
      }
    }
    expect(await said(Things, Things)).toEqual([expect.stringContaining('in Module0 and Module1')]);
  });
});

describe('two controllers of one name', () => {
  it('are told apart by path and module', async () => {
    const controllerAt = (path: string) => {
      @Controller(path)
      class Things {
        @Post('made')
        @Idempotent()
        make() {
          return 'made';
        }
      }
      return Things;
    };
    await expect(said(controllerAt('v1'), controllerAt('v2'))).rejects.toThrow(
      'Two operations are named "Things.make": Things.make (POST /v1/made, in Module0) and Things.make (POST /v2/made, in Module1).',
    );
  });
});

describe('two versions of a controller', () => {
  it('are told apart by them', async () => {
    const controllerOf = (version: string | string[]) => {
      @Controller({ path: 'things', version })
      class Things {
        @Post()
        @Idempotent()
        make() {
          return 'made';
        }
      }
      return Things;
    };
    await expect(said(controllerOf('1'), controllerOf(['2', '3']))).rejects.toThrow(
      'Things.make (POST /things (version 1), in Module0) and Things.make (POST /things (version 2, 3), in Module1).',
    );
  });
});

describe('an application that no signal closes', () => {
  const warning = expect.stringContaining('app.enableShutdownHooks()');

  it('is warned of when it listens, and not before', async () => {
    const lines = await create({});
    await app?.init();
    expect(lines.own).toEqual([]);
    await app?.listen(0, '127.0.0.1');
    await new Promise(setImmediate);
    expect(lines.own).toEqual([warning]);
  });

  it('is not warned of with the hooks, enabled before or after', async () => {
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

  it('is not warned of with a signal handler of its own', async () => {
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
