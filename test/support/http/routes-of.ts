import type { Type } from '@nestjs/common';
import { PATH_METADATA } from '@nestjs/common/constants.js';

/** The paths of a controller's routes, so that a table of tests can go through all of them. */
export function routesOf(controller: Type): string[] {
  const handlers = Object.entries(Object.getOwnPropertyDescriptors(controller.prototype));
  return handlers
    .filter(([name]) => name !== 'constructor')
    .map(([, { value }]) => `/${String(Reflect.getMetadata(PATH_METADATA, value as object))}`);
}
