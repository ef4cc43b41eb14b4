import {
  All,
  Controller,
  Get,
  Head,
  Module,
  Post,
  UploadedFile,
  UseInterceptors,
  type CallHandler,
  type INestApplication,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  ExpressAdapter,
  FileInterceptor,
  FilesInterceptor,
  NoFilesInterceptor,
  type NestExpressApplication,
} from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { describe, expect, it } from '@jest/globals';
import { json, raw, text } from 'express';
import {
  Idempotent,
  IdempotencyModule,
  IdempotencyOptionsError,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms, type Platform } from '../../support/http/combinations.js';

interface Start {
  readonly platform?: Platform;
  readonly options?: Omit<IdempotencyModuleOptions, 'store'>;
  readonly rawBody?: boolean;
  readonly bodyParser?: false;
  readonly configure?: (app: INestApplication) => unknown;
}

@Module({})
class AppModule {}

/** What the start of an application says: `undefined` where it did start. */
async function complaint(controller: Type, start: Start = {}): Promise<string | undefined> {
  const { platform = 'express', options, configure, ...settings } = start;
  const app = await NestFactory.create(
    {
      module: AppModule,
      imports: [IdempotencyModule.forRoot({ store: memoryStore(), ...options })],
      controllers: [controller],
    },
    platform === 'express' ? new ExpressAdapter() : new FastifyAdapter(),
    { logger: false, abortOnError: false, ...settings },
  );
  try {
    await configure?.(app);
    await app.init();
    return undefined;
  } catch (error) {
    expect(error).toBeInstanceOf(IdempotencyOptionsError);
    return (error as Error).message;
  } finally {
    await app.close();
  }
}

class Passing implements NestInterceptor {
  intercept(_: unknown, next: CallHandler) {
    return next.handle();
  }
}

@Controller()
class Payments {
  @Post()
  @Idempotent({ fingerprint: 'bytes' })
  pay() {
    return 'paid';
  }
}

describe.each(platforms)("C32 fingerprint: 'bytes' on %s", (platform) => {
  it('does not start without raw bodies, and says where to turn them on', async () => {
    const message = await complaint(Payments, { platform });
    expect(message).toMatch(/option "fingerprint" of Payments\.pay is 'bytes'/);
    expect(message).toContain('{ rawBody: true }');
  });

  it('does not start without raw bodies where it is the default of all routes', async () => {
    @Controller()
    class Plain {
      @Post()
      @Idempotent()
      pay() {
        return 'paid';
      }
    }
    const options = { fingerprint: 'bytes' } as const;
    expect(await complaint(Plain, { platform, options })).toContain('Plain.pay');
    expect(await complaint(Plain, { platform, options, rawBody: true })).toBeUndefined();
    expect(await complaint(Plain, { platform })).toBeUndefined();
  });

  it('does not start without raw bodies where the parser of JSON got a limit', async () => {
    const configure = (app: INestApplication) =>
      platform === 'express'
        ? (app as NestExpressApplication).useBodyParser('json', { limit: '10mb' })
        : (app as NestFastifyApplication).useBodyParser('application/json', { bodyLimit: 1e7 });
    expect(await complaint(Payments, { platform, configure })).toContain('{ rawBody: true }');
    expect(await complaint(Payments, { platform, configure, rawBody: true })).toBeUndefined();
  });

  it('starts with raw bodies', async () => {
    expect(await complaint(Payments, { platform, rawBody: true })).toBeUndefined();
  });

  it("starts without Nest's parsers: those of the application may keep raw bodies", async () => {
    expect(await complaint(Payments, { platform, bodyParser: false })).toBeUndefined();
  });

  it('starts with a parser of its own, which may keep raw bodies', async () => {
    const configure = (app: INestApplication) =>
      platform === 'express'
        ? app.use(json({ verify: (request, _, bytes) => Object.assign(request, { bytes }) }))
        : (app as NestFastifyApplication).useBodyParser(
            'application/json',
            {},
            (_request, body, done) => done(null, JSON.parse(String(body))),
          );
    expect(await complaint(Payments, { platform, configure })).toBeUndefined();
  });

  it.each([true, false])('knows raw bodies of a testing module: %s', async (rawBody) => {
    const testing = await Test.createTestingModule({
      imports: [IdempotencyModule.forRoot({ store: memoryStore() })],
      controllers: [Payments],
    }).compile();
    const adapter = platform === 'express' ? new ExpressAdapter() : new FastifyAdapter();
    const app = testing.createNestApplication(adapter, { logger: false, rawBody });
    const starting = app.init().then(
      () => 'started',
      (error: unknown) => (error as Error).message,
    );
    expect(await starting).toMatch(rawBody ? /^started$/ : /\{ rawBody: true \}/);
    await app.close();
  });
});

describe("C32 fingerprint: 'bytes' on Express", () => {
  const type = 'application/json';
  const verify = (request: object, _: unknown, rawBody: Buffer) =>
    void Object.assign(request, { rawBody });

  it.each<[string, (app: NestExpressApplication) => unknown]>([
    ['of some paths that leaves bytes', (app) => app.use('/hooks', raw({ type }))],
    ['of text, which may keep bytes', (app) => app.use(text({ type, verify }))],
    ['that leaves bytes', (app) => app.useBodyParser('raw', { type })],
    ['of text', (app) => app.useBodyParser('text', { type })],
    [
      'that leaves bytes before that of JSON',
      (app) => app.useBodyParser('raw', { type }).useBodyParser('json'),
    ],
    ['of JSON that keeps bytes', (app) => app.useBodyParser('json', { verify } as object)],
  ])('starts with a parser %s', async (_, configure) => {
    const parsers = (app: INestApplication) => configure(app as NestExpressApplication);
    expect(await complaint(Payments, { configure: parsers })).toBeUndefined();
  });

  it.each<[string, (app: NestExpressApplication) => unknown]>([
    ['JSON', (app) => app.useBodyParser('json')],
    ['JSON, and then bytes', (app) => app.useBodyParser('json').useBodyParser('raw', { type })],
  ])('does not start without raw bodies where all that is parsed is %s', async (_, configure) => {
    const parsers = (app: INestApplication) => configure(app as NestExpressApplication);
    const start = { bodyParser: false, configure: parsers } as const;
    expect(await complaint(Payments, start)).toContain('{ rawBody: true }');
    expect(await complaint(Payments, { ...start, rawBody: true })).toBeUndefined();
  });
});

describe('a start that nothing would be compared after', () => {
  it.each([
    ['of the operation', { enabled: false }, {}],
    ['of the module', {}, { enabled: false }],
  ])('does not stop the start where "enabled" %s is false', async (_, ofOperation, options) => {
    @Controller()
    class Uploads {
      @Post('bytes')
      @Idempotent({ ...ofOperation, fingerprint: 'bytes' })
      bytes() {
        return 'paid';
      }

      @Post('form')
      @UseInterceptors(FileInterceptor('file'))
      @Idempotent(ofOperation)
      form() {
        return 'uploaded';
      }
    }
    expect(await complaint(Uploads, { options })).toBeUndefined();
  });

  it('stops the start where a function decides', async () => {
    @Controller()
    class Uploads {
      @Post()
      @Idempotent({ enabled: () => false, fingerprint: 'bytes' })
      upload() {
        return 'uploaded';
      }
    }
    expect(await complaint(Uploads)).toContain('{ rawBody: true }');
  });

  it('does not stop the start on a route of a safe method', async () => {
    @Controller()
    class Uploads {
      @Get()
      @Idempotent({ fingerprint: 'bytes' })
      list() {
        return [];
      }

      @Head('form')
      @UseInterceptors(FileInterceptor('file'))
      @Idempotent()
      look() {
        return;
      }
    }
    expect(await complaint(Uploads)).toBeUndefined();
  });

  it('stops the start on a route of all methods', async () => {
    @Controller()
    class Uploads {
      @All()
      @Idempotent({ fingerprint: 'bytes' })
      any() {
        return [];
      }
    }
    expect(await complaint(Uploads)).toContain('{ rawBody: true }');
  });
});

describe("C32 fingerprint: 'bytes' with a plugin of Fastify that keeps raw bodies", () => {
  it('starts', async () => {
    const configure = (app: INestApplication) =>
      (app as NestFastifyApplication)
        .getHttpAdapter()
        .getInstance()
        .decorateRequest('rawBody', null);
    expect(await complaint(Payments, { platform: 'fastify', configure })).toBeUndefined();
  });
});

describe('C47 a form that is parsed inside of the layer', () => {
  @Controller()
  class Uploads {
    @Post()
    @UseInterceptors(FileInterceptor('file'))
    @Idempotent()
    upload(@UploadedFile() file: unknown) {
      return typeof file;
    }
  }

  it.each(platforms)('does not start on %s, and is told the remedy', async (platform) => {
    const message = await complaint(Uploads, { platform });
    expect(message).toMatch(/form of Uploads\.upload is parsed inside of the layer/);
    expect(message).toMatch(/below @Idempotent\(\)/);
    expect(message).toMatch(/function as the option "fingerprint"/);
  });

  it.each([
    ['several files', FilesInterceptor('file')],
    ['fields alone', NoFilesInterceptor()],
    ['an interceptor of its own', class extends FileInterceptor('file') {}],
    ['an instance', new (FileInterceptor('file'))()],
  ])('does not start with %s', async (_, interceptor) => {
    @Controller()
    class Forms {
      @Post()
      @UseInterceptors(Passing, interceptor)
      @Idempotent()
      upload() {
        return 'uploaded';
      }
    }
    expect(await complaint(Forms)).toContain('Forms.upload');
  });

  it('does not start with interceptors outside that parse nothing', async () => {
    @Controller()
    @UseInterceptors(Passing)
    class Forms {
      @Post()
      @UseInterceptors(FileInterceptor('file'))
      @Idempotent({ fingerprint: { exclude: ['note'] } })
      @UseInterceptors(Passing)
      upload() {
        return 'uploaded';
      }
    }
    expect(await complaint(Forms)).toContain('Forms.upload');
  });

  it.each([
    ['a function', () => 'the same'],
    ['nothing', false],
  ] as const)('starts where %s is compared', async (_, fingerprint) => {
    @Controller()
    class Forms {
      @Post()
      @UseInterceptors(FileInterceptor('file'))
      @Idempotent({ fingerprint })
      upload() {
        return 'uploaded';
      }
    }
    expect(await complaint(Forms)).toBeUndefined();
  });
});

describe('C47 a form that is parsed outside of the layer starts', () => {
  it('with the interceptor below the layer', async () => {
    @Controller()
    class Forms {
      @Post()
      @UseInterceptors(Passing)
      @Idempotent()
      @UseInterceptors(FileInterceptor('file'))
      upload(@UploadedFile() file: unknown) {
        return typeof file;
      }
    }
    expect(await complaint(Forms)).toBeUndefined();
  });

  it('with the interceptor on the class', async () => {
    @Controller()
    @UseInterceptors(FileInterceptor('file'))
    class Forms {
      @Post()
      @UseInterceptors(Passing)
      @Idempotent()
      upload(@UploadedFile() file: unknown) {
        return typeof file;
      }
    }
    expect(await complaint(Forms)).toBeUndefined();
  });

  it('with the layer on the class, which stands inside of every method’s interceptors', async () => {
    @Controller()
    @Idempotent()
    class Forms {
      @Post()
      @UseInterceptors(FileInterceptor('file'))
      upload(@UploadedFile() file: unknown) {
        return typeof file;
      }

      @Get()
      list() {
        return [];
      }
    }
    expect(await complaint(Forms)).toBeUndefined();
  });

  it('by middleware or by an interceptor that nobody knows', async () => {
    @Controller()
    class Forms {
      @Post()
      @UseInterceptors(Passing)
      @Idempotent()
      upload(@UploadedFile() file: unknown) {
        return typeof file;
      }
    }
    expect(await complaint(Forms)).toBeUndefined();
  });
});
