import type { Type } from '@nestjs/common';

/**
 * A class whose methods do nothing.
 *
 * @param ofClass - its decorators, in source order.
 * @param methods - the decorators of each method, in source order.
 */
export function declared(
  name: string,
  ofClass: readonly ClassDecorator[],
  methods: Readonly<Record<string, readonly MethodDecorator[]>>,
): Type {
  // eslint-disable-next-line @typescript-eslint/no-extraneous-class -- its methods come below
  const type = { [name]: class {} }[name]!;
  for (const [method, ofMethod] of Object.entries(methods)) {
    const value = { [method]: () => 'done' }[method];
    Object.defineProperty(type.prototype, method, { value, writable: true, configurable: true });
    const descriptor = Object.getOwnPropertyDescriptor(type.prototype, method)!;
    for (const decorate of [...ofMethod].reverse()) decorate(type.prototype, method, descriptor);
    Object.defineProperty(type.prototype, method, descriptor);
  }
  for (const decorate of [...ofClass].reverse()) decorate(type);
  return type;
}
