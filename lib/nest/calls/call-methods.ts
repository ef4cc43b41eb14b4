import { MetadataScanner } from '@nestjs/core';
import type { Handler } from '../../transports/http/http-route.js';
import { entryOf } from '../idempotent.metadata.js';
import { isHandler } from '../routes/handler-kinds.js';

/**
 * The methods of a class that `@Idempotent()` stands on and that are no handlers, as it left them; those of base classes
 * included. Other decorators may have put something around them.
 */
export function callMethods(prototype: object): Handler[] {
  const methods = prototype as Readonly<Record<string, Handler>>;
  const names = new MetadataScanner().getAllMethodNames(prototype);
  return names.flatMap((name) => entryOfCall(methods[name]) ?? []);
}

/** The method as `@Idempotent()` left it; `undefined` for handlers, and where it does not stand. */
export function entryOfCall(method: Handler | undefined): Handler | undefined {
  return method === undefined || isHandler(method) ? undefined : entryOf(method);
}
