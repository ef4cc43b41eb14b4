import { Module, type INestApplication, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { DocumentBuilder, SwaggerModule, type OpenAPIObject } from '@nestjs/swagger';
import { IdempotencyModule, type IdempotencyModuleOptions } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { documentIdempotency } from 'nestjs-idempotency/swagger';

@Module({})
class AppModule {}

/** An application's document, with the additions of the library. */
export function documentOf(app: INestApplication, config = new DocumentBuilder()): OpenAPIObject {
  return documentIdempotency(app, () => SwaggerModule.createDocument(app, config.build()));
}

/** An application that does not listen. */
export function createApp(
  controllers: Type[],
  options: Omit<IdempotencyModuleOptions, 'store'> = {},
): Promise<INestApplication> {
  const imports = [IdempotencyModule.forRoot({ store: memoryStore(), ...options })];
  const module = { module: AppModule, imports, controllers };
  return NestFactory.create(module, { logger: false, abortOnError: false });
}

/** The operation of the only route with this path. */
export function operationOf(document: OpenAPIObject, path: string, method = 'post'): any {
  return (document.paths[path] as any)[method];
}

/** The lower-case names of an operation's header parameters. */
export function headersOf(operation: any): string[] {
  return operation.parameters
    .filter((parameter: any) => parameter.in === 'header')
    .map((parameter: any) => parameter.name.toLowerCase());
}
