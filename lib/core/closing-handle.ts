import { TransactionOverError } from './transaction-errors.js';

/**
 * Puts around the handle of a library's transaction one that refuses as soon as `isOver` says so: the library's
 * own may go on to write, through a connection that another request has by then.
 */
export function closingHandle<Handle extends object>(
  handle: Handle,
  isOver: () => boolean,
): Handle {
  const refuseIfOver = () => {
    if (isOver()) throw new TransactionOverError();
  };
  return new Proxy(handle, {
    get(_, name) {
      // Whoever returns the handle from an async function is asked for `then`.
      if (name !== 'then') refuseIfOver();
      const value: unknown = Reflect.get(handle, name, handle);
      // Private fields are the handle's own: the methods have to be called on it.
      return typeof value === 'function' ? (value.bind(handle) as unknown) : value;
    },
    apply(callable, self, values: unknown[]) {
      refuseIfOver();
      return Reflect.apply(callable as (...values: unknown[]) => unknown, self, values);
    },
  });
}
