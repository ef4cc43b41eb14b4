export type Around = (run: () => any, args: readonly any[]) => unknown;

/**
 * Puts something around a method, as decorators do for transactions, spans, retries and caches: a function without a name.
 *
 * @param metadata - whether it copies what other decorators have noted on the method.
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
