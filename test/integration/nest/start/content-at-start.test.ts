import {
  All,
  Controller,
  Get,
  Head,
  Module,
  Post,
  UseInterceptors,
  type CallHandler,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  ExpressAdapter,
  FileInterceptor,
  FilesInterceptor,
  NoFilesInterceptor,
} from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { describe, expect, it } from '@jest/globals';
import {
  Idempotent,
  IdempotencyModule,
  IdempotencyOptionsError,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms, type Platform } from '../../../support/http/combinations.js';
import { declared } from '../support/declared.js';

interface Start {
  readonly platform?: Platform;
  readonly options?: Omit<IdempotencyModuleOptions, 'store'>;
}

@Module({})
class AppModule {}

/** The start error of an application; `undefined` when it starts. */
async function complaint(controller: Type, start: Start = {}): Promise<string | undefined> {
  const { platform = 'express', options } = start;
  const app = await NestFactory.create(
    {
      module: AppModule,
      imports: [IdempotencyModule.forRoot({ store: memoryStore(), ...options })],
      controllers: [controller],
    },
    platform === 'express' ? new ExpressAdapter() : new FastifyAdapter(),
    { logger: false, abortOnError: false },
  );
  try {
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

const parsing = UseInterceptors(FileInterceptor('file'));
const passing = UseInterceptors(Passing);

/** A route with the decorators `ofMethod`, on a class with `ofClass`. */
const forms = (ofClass: ClassDecorator[], ...ofMethod: MethodDecorator[]) =>
  declared('Forms', [Controller(), ...ofClass], { upload: [Post(), ...ofMethod], list: [Get()] });

describe('C47 a form that is parsed inside of the interceptor', () => {
  it.each(platforms)('stops the start on %s with a remedy', async (platform) => {
    const message = await complaint(forms([], parsing, Idempotent()), { platform });
    expect(message).toMatch(/form of Forms\.upload is parsed inside IdempotencyInterceptor/);
    expect(message).toMatch(/below @Idempotent\(\)/);
    expect(message).toMatch(/option "fingerprint" to a function/);
  });

  it.each([
    ['several files', FilesInterceptor('file')],
    ['only fields', NoFilesInterceptor()],
    ['an interceptor of its own', class extends FileInterceptor('file') {}],
    ['an instance', new (FileInterceptor('file'))()],
  ])('stops the start with %s', async (_, interceptor) => {
    const type = forms([], UseInterceptors(Passing, interceptor), Idempotent());
    expect(await complaint(type)).toContain('Forms.upload');
  });

  it('stops the start even with outer interceptors that do not parse', async () => {
    const idempotent = Idempotent({ fingerprint: { exclude: ['note'] } });
    const type = forms([passing], parsing, idempotent, passing);
    expect(await complaint(type)).toContain('Forms.upload');
  });

  it.each([
    ['a function', () => 'the same'],
    ['nothing', false],
  ] as const)('starts when %s is compared', async (_, fingerprint) => {
    expect(await complaint(forms([], parsing, Idempotent({ fingerprint })))).toBeUndefined();
  });
});

describe('C47 a form that is parsed inside of the interceptor, when it may not be compared', () => {
  const uploads = (route: MethodDecorator, options: object = {}) =>
    declared('Uploads', [Controller()], { upload: [route, parsing, Idempotent(options)] });

  it.each([
    ['of the operation', { enabled: false }, {}],
    ['of the module', {}, { enabled: false }],
  ])('starts when "enabled" %s is false', async (_, ofOperation, options) => {
    expect(await complaint(uploads(Post(), ofOperation), { options })).toBeUndefined();
  });

  it.each([
    ['GET', Get()],
    ['HEAD', Head()],
  ])('starts on a route of the safe method %s', async (_, route) => {
    expect(await complaint(uploads(route))).toBeUndefined();
  });

  it.each([
    ['when a function decides', Post(), { enabled: () => false }],
    ['on a route of all methods', All(), {}],
  ])('stops the start %s', async (_, route, options) => {
    expect(await complaint(uploads(route, options))).toContain('Uploads.upload');
  });
});

describe('C47 a form that is parsed outside of the interceptor starts', () => {
  it.each([
    ['below @Idempotent()', forms([], passing, Idempotent(), parsing)],
    ['on the class', forms([parsing], passing, Idempotent())],
    ['on the method, with @Idempotent() on the class', forms([Idempotent()], parsing)],
    ['by middleware or by an unknown interceptor', forms([], passing, Idempotent())],
  ])('%s', async (_, type) => {
    expect(await complaint(type)).toBeUndefined();
  });
});
