/* eslint-disable @typescript-eslint/no-empty-function -- of these handlers only the decorators count */
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  All,
  Controller,
  Delete,
  Get,
  Module,
  Patch,
  Post,
  Put,
  Version,
  VERSION_NEUTRAL,
  VersioningType,
  type INestApplication,
} from '@nestjs/common';
import { NestFactory, RouterModule } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { ApiExcludeEndpoint, ApiExtension, type OpenAPIObject } from '@nestjs/swagger';
import { IdempotencyModule, Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../support/http/combinations.js';
import { documentOf, headersOf } from './support/document.js';

const HOST = 'pay.example.test';

@Controller()
class PlainController {
  @Post('plain')
  @Idempotent()
  protect() {}

  @Post('unprotected')
  unprotected() {}

  @Post('disabled')
  @Idempotent({ enabled: false })
  disabled() {}

  @Post('hidden')
  @Idempotent()
  @ApiExcludeEndpoint()
  hidden() {}

  @Post('extended')
  @ApiExtension('x-audience', 'partners')
  @Idempotent()
  extended() {}

  @All('anything')
  @Idempotent()
  anything() {}

  @Put(['first', 'second'])
  @Idempotent()
  aliases() {}

  @Delete('accounts/:id/cards/:card')
  @Idempotent()
  parameters() {}

  @Patch('files/*')
  @Idempotent()
  wildcard() {}
}

@Controller({ path: ['invoices', 'bills'], version: ['1', '2'] })
@Idempotent()
class VersionedController {
  @Get()
  list() {}

  @Post()
  create() {}

  @Post('later')
  @Version('3')
  later() {}

  @Post('neutral')
  @Version(VERSION_NEUTRAL)
  neutral() {}
}

@Controller({ path: 'hosted', host: HOST })
class HostedController {
  @Post()
  @Idempotent()
  create() {}
}

class CreatingController {
  @Post()
  @Idempotent()
  create() {}
}

@Controller('one')
class OneController extends CreatingController {}

@Controller('other')
@Idempotent({ key: { required: false } })
class OtherController extends CreatingController {}

@Controller('users')
class AdminController {
  @Post()
  @Idempotent()
  create() {}
}

@Module({ controllers: [AdminController] })
class AdminModule {}

@Controller('ping')
class OutsidePrefixController {
  @Post()
  @Idempotent()
  ping() {}
}

@Module({
  imports: [
    IdempotencyModule.forRoot({ store: memoryStore(), caller: { anonymous: 'shared' } }),
    AdminModule,
    RouterModule.register([{ path: 'admin', module: AdminModule }]),
  ],
  controllers: [
    PlainController,
    VersionedController,
    HostedController,
    OneController,
    OtherController,
    OutsidePrefixController,
  ],
})
class AppModule {}

/** Maps every operation of the document, as method and path, to whether it documents the key. */
function operationsOf(document: OpenAPIObject): Map<string, boolean> {
  const operations = new Map<string, boolean>();
  for (const [path, item] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(item)) {
      const documentsKey = headersOf(operation).includes('idempotency-key');
      operations.set(`${method.toUpperCase()} ${path}`, documentsKey);
    }
  }
  return operations;
}

describe.each(platforms)('the operations that are documented as idempotent on %s', (platform) => {
  let app: INestApplication;
  let document: OpenAPIObject;

  beforeAll(async () => {
    const adapter = platform === 'express' ? new ExpressAdapter() : new FastifyAdapter();
    app = await NestFactory.create(AppModule, adapter, { logger: false, abortOnError: false });
    app.setGlobalPrefix('api', { exclude: ['ping'] });
    app.enableVersioning({ type: VersioningType.URI, defaultVersion: VERSION_NEUTRAL });
    document = documentOf(app);
    await app.listen(0, '127.0.0.1');
  });
  afterAll(() => app.close());

  async function respondsKeyMissing(operation: string): Promise<boolean> {
    const [method, template = ''] = operation.split(' ');
    const path = template.replaceAll(/\{\w+\}/g, 'x');
    const { port } = app.getHttpServer().address() as AddressInfo;
    const headers = { host: HOST, connection: 'close' };
    const sent = request({ host: '127.0.0.1', port, method, path, headers }).end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    response.resume();
    expect([operation, response.statusCode]).not.toEqual([operation, 404]);
    return (
      response.statusCode === 400 &&
      response.headers['content-type']?.startsWith('application/problem+json') === true
    );
  }

  it('are the protected ones, with any prefix, version, host, alias and module', () => {
    const documented = [...operationsOf(document)].filter(([, documentsKey]) => documentsKey);
    expect(documented.map(([operation]) => operation).sort()).toEqual(
      [
        'POST /api/plain',
        'POST /api/extended',
        'POST /api/anything',
        'PUT /api/anything',
        'DELETE /api/anything',
        'PATCH /api/anything',
        'SEARCH /api/anything',
        'PUT /api/first',
        'PUT /api/second',
        'DELETE /api/accounts/{id}/cards/{card}',
        'PATCH /api/files/{path}',
        'POST /api/v1/invoices',
        'POST /api/v2/invoices',
        'POST /api/v1/bills',
        'POST /api/v2/bills',
        'POST /api/v3/invoices/later',
        'POST /api/v3/bills/later',
        'POST /api/invoices/neutral',
        'POST /api/bills/neutral',
        'POST /api/hosted',
        'POST /api/one',
        'POST /api/other',
        'POST /api/admin/users',
        'POST /ping',
      ].sort(),
    );
  });

  it('are exactly the ones that reject a request without a key', async () => {
    const documented = operationsOf(document);
    // Its key is optional.
    documented.delete('POST /api/other');
    const real = new Map<string, boolean>();
    for (const operation of documented.keys()) {
      real.set(operation, await respondsKeyMissing(operation));
    }
    expect(real).toEqual(documented);
    expect([...real.values()].filter((isProtected) => !isProtected).length).toBeGreaterThan(5);
  });

  it('have the options of their own class when classes share a method', () => {
    const required = (path: string) =>
      (document.paths[path] as any).post.parameters.find(({ in: place }: any) => place === 'header')
        .required;
    expect([required('/api/one'), required('/api/other')]).toEqual([true, false]);
  });

  it('leave their methods unchanged', () => {
    const methods = () =>
      [CreatingController, OneController, PlainController].map(({ prototype }) =>
        Object.getOwnPropertyDescriptors(prototype),
      );
    const before = methods();
    const again = documentOf(app);
    expect(methods()).toEqual(before);
    expect(before[1]).not.toHaveProperty('create');
    expect(again).toEqual(document);
  });

  it('keep their extensions, and have none of those that located them', () => {
    expect((document.paths['/api/extended'] as any).post['x-audience']).toBe('partners');
    expect(JSON.stringify(document)).not.toContain('x-nestjs-idempotency');
  });

  it('exclude what the application excludes', () => {
    expect(document.paths).not.toHaveProperty('/api/hidden');
  });
});
