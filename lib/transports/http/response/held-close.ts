import type { ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';

/** Whether nothing can be sent any more. A response over HTTP/2 does not say so itself: its stream does. */
export function isGone(response: ServerResponse): boolean {
  const { destroyed, stream } = response as ServerResponse & { stream?: { destroyed: boolean } };
  return destroyed || stream?.destroyed === true;
}

/** How a stream shows that its connection has gone; over HTTP/2 it also says that it has finished. */
const OF_CONNECTION: ReadonlySet<unknown> = new Set(['close', 'finish']);

/**
 * Keeps from a response's listeners that its client has left: whoever pipes into it would stop, but its body is stored.
 * @param onDestroyed - is called when code of the application destroys the response: then nothing more comes.
 * @returns a function that ends this, and tells what was kept back.
 */
export function holdClose(response: ServerResponse, onDestroyed: () => void): () => void {
  const held: unknown[][] = [];
  let isHeld = true;
  const restoreEmit = replaced(response, 'emit', (emit) => (...args) => {
    if (!isHeld || !OF_CONNECTION.has(args[0])) return emit(...args);
    held.push(args);
    return true;
  });
  const restoreDestroy = replaced(response, 'destroy', (destroy) => (error) => {
    if (isHeld) {
      onDestroyed();
      release();
    }
    return destroy(error);
  });
  const release = () => {
    if (!isHeld) return;
    isHeld = false;
    restoreEmit();
    restoreDestroy();
    for (const [event, ...args] of held) response.emit(event as string, ...args);
  };
  return release;
}

/**
 * Keeps a source that is being stored from being destroyed because the connection has gone, as Nest does. With an error, it
 * is destroyed at once.
 * @returns a function that ends this, and destroys the source if that was asked for.
 */
export function holdDestroy(source: Readable): () => void {
  let isHeld = true;
  let isAsked = false;
  const restore = replaced(source, 'destroy', (destroy) => (error) => {
    // At its end, a stream destroys itself.
    if (!isHeld || error !== undefined || source.readableEnded) return destroy(error);
    isAsked = true;
    return source;
  });
  return () => {
    isHeld = false;
    restore();
    if (isAsked) source.destroy();
  };
}

type Method = (...args: unknown[]) => unknown;

/** Puts a method on the object itself. @returns a function that takes it away, unless other code has replaced it. */
function replaced(object: object, name: string, around: (original: Method) => Method): () => void {
  const methods = object as Record<string, Method | undefined>;
  const own = Object.getOwnPropertyDescriptor(object, name);
  const original = methods[name];
  const method = around((...args) => original?.apply(object, args));
  Object.defineProperty(object, name, { value: method, writable: true, configurable: true });
  return () => {
    if (methods[name] !== method) return;
    if (own === undefined) Reflect.deleteProperty(object, name);
    else Object.defineProperty(object, name, own);
  };
}
