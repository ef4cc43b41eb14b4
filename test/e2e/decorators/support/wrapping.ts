export type Around = (run: () => any, args: readonly any[]) => unknown;

/**
 * Wraps a method in a nameless function, as decorators for transactions, spans, retries and caches do.
 *
 * @param metadata - whether it copies the metadata of other decorators on the method.
 */
export function Wrapping(around: Around, metadata: 'copied' | 'lost' = 'copied'): MethodDecorator {
  return (_target, _name, descriptor: PropertyDescriptor) => {
    const method = descriptor.value as (...args: unknown[]) => unknown;
    descriptor.value = function (this: unknown, ...args: unknown[]) {
      return around(() => method.apply(this, args), args);
    };
    if (metadata === 'copied') copyMetadata(method, descriptor.value);
  };
}

export function copyMetadata(from: object, to: object): void {
  for (const key of Reflect.getMetadataKeys(from) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getMetadata(key, from), to);
  }
}
