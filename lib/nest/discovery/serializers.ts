import { Injectable, type Type } from '@nestjs/common';
import { ApplicationConfig, MetadataScanner } from '@nestjs/core';
import { INTERCEPTORS_METADATA } from '@nestjs/common/constants.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import type { Handler } from '../../transports/http/http-route.js';
import { isIdempotencyInterceptor } from './idempotent.metadata.js';

/** The interceptor of Nest's that heeds `@Exclude()`, known by name: its package may be there twice. */
const SERIALIZER = 'ClassSerializerInterceptor';

/**
 * Knows where values are serialized by their class. What a handler of messages or of a gateway returns is stored as
 * plain data, and comes back so: a serializer outside of the layer would see no class any more, and tell what
 * `@Exclude()` is to hide.
 */
@Injectable()
export class Serializers {
  constructor(private readonly application: ApplicationConfig) {}

  /** @throws {@link IdempotencyOptionsError} where a handler's values are serialized outside of the layer only. */
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
      `${controller.name}.${handler.name} returns its value into a ${SERIALIZER} by way of its record, where it is plain data: what @Exclude() hides would be told. Put @UseInterceptors(${SERIALIZER}) on the method, above @Idempotent(), for decorators apply from the bottom.`,
    );
  }

  /** They count, though Nest may give a microservice a configuration of its own: it does not tell whether it has. */
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
  let type: unknown = typeof interceptor === 'function' ? interceptor : interceptor.constructor;
  while (typeof type === 'function') {
    if (type.name === SERIALIZER) return true;
    type = Object.getPrototypeOf(type);
  }
  return false;
}

/** The interceptors that are bound to a method or to a class by decorators, the outer ones first. */
export function interceptorsOf(target: Handler): object[] {
  return (Reflect.getMetadata(INTERCEPTORS_METADATA, target) ?? []) as object[];
}

/** The methods of a class, inherited ones included, that have an interceptor of this kind bound to themselves. */
export function methodsBoundTo(
  prototype: object,
  isMeant: (bound: object) => boolean,
): [name: string, method: Handler][] {
  const methods = prototype as Readonly<Record<string, Handler>>;
  const names = new MetadataScanner().getAllMethodNames(prototype);
  return names.flatMap((name) => {
    const method = methods[name];
    return method !== undefined && interceptorsOf(method).some(isMeant) ? [[name, method]] : [];
  });
}
