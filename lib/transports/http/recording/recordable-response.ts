import { ServerResponse } from 'node:http';
import { BENEATH, CLASS_METHODS, NAMES, STATE } from './shadow-methods.js';

/**
 * Gives a server a class of its own for its responses, as the option `ServerResponse` of `http.createServer` does it: one
 * that has the methods that record. Ten properties on every response cost V8 its layout, and Node half of its speed with
 * it. Where Node keeps that class elsewhere, over HTTP/2 for one, nothing is changed, and they go on the response.
 *
 * For Express it is of no use: it gives each response another prototype, and the layout is lost by that.
 */
export function makeResponsesRecordable(server: object): void {
  const place = Object.getOwnPropertySymbols(server).find(
    ({ description }) => description === 'ServerResponse',
  );
  if (place === undefined) return;
  const servers = server as Record<symbol, unknown>;
  const Response = servers[place] as typeof ServerResponse | undefined;
  const isClass = Response === ServerResponse || Response?.prototype instanceof ServerResponse;
  if (Response === undefined || !isClass || BENEATH in Response.prototype) return;
  const Recordable = class extends Response {};
  layOn(Recordable.prototype);
  servers[place] = Recordable;
}

function layOn(prototype: ServerResponse): void {
  const beneath: unknown = Object.getPrototypeOf(prototype);
  for (const name of NAMES) {
    const value = CLASS_METHODS[name];
    Object.defineProperty(prototype, name, { value, writable: true, configurable: true });
  }
  Object.defineProperties(prototype, STATE);
  Object.defineProperty(prototype, BENEATH, { value: beneath });
}
