import { Injectable, type Type } from '@nestjs/common';
import { ApplicationConfig, MetadataScanner } from '@nestjs/core';
import { INTERCEPTORS_METADATA } from '@nestjs/common/constants.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { isIdempotencyInterceptor, type Handler } from './idempotent.metadata.js';

/** Nest's interceptor for `@Exclude()`, recognised by name: its package may be installed twice. */
const SERIALIZER = 'ClassSerializerInterceptor';

/** Finds serializers outside IdempotencyInterceptor: stored values are plain data, where `@Exclude()` hides nothing. */
@Injectable()
export class Serializers {
  constructor(private readonly application: ApplicationConfig) {}

  /** @throws {@link IdempotencyOptionsError} if values are serialized outside IdempotencyInterceptor only. */
  checkInside(controller: Type, handler: Handler): void {
    const own = interceptorsOf(handler);
    const ownIndex = own.findIndex(isIdempotencyInterceptor);
    if (own.slice(ownIndex + 1).some(isSerializer)) return;
    const outside = [
      ...this.ofApplication(),
      ...interceptorsOf(controller),
      ...own.slice(0, Math.max(0, ownIndex)),
    ];
    if (!outside.some(isSerializer)) return;
    throw new IdempotencyOptionsError(
      `${controller.name}.${handler.name} returns its value to a ${SERIALIZER} through its record, as plain data: fields with @Exclude() would be exposed. Put @UseInterceptors(${SERIALIZER}) on the method, above @Idempotent(); decorators apply from the bottom up.`,
    );
  }

  /** @returns whether IdempotencyInterceptor is the first of a handler's. Others may become global later. */
  outermost(controller: Type, handler: Handler): () => boolean {
    const [first] = [...interceptorsOf(controller), ...interceptorsOf(handler)];
    const isFirst = first !== undefined && isIdempotencyInterceptor(first);
    const { application } = this;
    return () =>
      isFirst &&
      application.getGlobalInterceptors().length === 0 &&
      application.getGlobalRequestInterceptors().length === 0;
  }

  /** Global interceptors count: whether a microservice has a configuration of its own cannot be determined. */
  private ofApplication(): object[] {
    const requestScoped = this.application.getGlobalRequestInterceptors();
    return [
      ...this.application.getGlobalInterceptors(),
      ...requestScoped.flatMap(({ metatype }) =>
        typeof metatype === 'function' ? [metatype] : [],
      ),
    ];
  }
}

function isSerializer(interceptor: object): boolean {
  return classesOf(interceptor).includes(SERIALIZER);
}

/** The names of the class of an interceptor or guard, as an instance or as a class, and of those that it extends. */
export function classesOf(enhancer: object): string[] {
  const names: string[] = [];
  let type: unknown = typeof enhancer === 'function' ? enhancer : enhancer.constructor;
  for (; typeof type === 'function'; type = Object.getPrototypeOf(type)) names.push(type.name);
  return names;
}

/** The interceptors that decorators bind to a method or to a class, the outer ones first. */
export function interceptorsOf(target: Handler): object[] {
  return (Reflect.getMetadata(INTERCEPTORS_METADATA, target) ?? []) as object[];
}

/** The methods of a class, inherited ones included, that have such an interceptor bound to themselves. */
export function methodsBoundTo(
  prototype: object,
  matches: (bound: object) => boolean,
): [name: string, method: Handler][] {
  const methods = prototype as Readonly<Record<string, Handler>>;
  const names = new MetadataScanner().getAllMethodNames(prototype);
  return names.flatMap((name) => {
    const method = methods[name];
    return method !== undefined && interceptorsOf(method).some(matches) ? [[name, method]] : [];
  });
}
