import { afterAll, beforeAll } from '@jest/globals';
import { START_HOOK_MS } from './start-server.js';

/** How to stop what has started, in reverse order. */
const started: (() => unknown)[] = [];

/**
 * A server, an application or a client of one, from before the tests of this file, or of a `describe`, until
 * after them. If it does not start, each test fails for that first, and only what has started is stopped. The
 * last one stops first: Jest calls hooks in the order of their definition.
 *
 * @param start - may use what an earlier call has started.
 * @param stop - if neither `stop()` nor `close()` of the result of `start` does it.
 * @returns the result of `start`; not before that.
 */
export function useServer<Server extends object>(
  start: () => Server | Promise<Server>,
  stop: (server: Server) => unknown = stopIt,
): Server {
  let server: Server | undefined;
  beforeAll(async () => {
    started.push(() => server && stop(server));
    server = await start();
  }, START_HOOK_MS);
  afterAll(async () => {
    await started.pop()?.();
  }, START_HOOK_MS);
  return new Proxy({} as Server, {
    get: (_, name) => {
      if (server === undefined) throw new Error('It has not started.');
      const value: unknown = Reflect.get(server, name, server);
      return typeof value === 'function' ? (value.bind(server) as unknown) : value;
    },
    has: (_, name) => server !== undefined && name in server,
    getPrototypeOf: () => (server === undefined ? null : Reflect.getPrototypeOf(server)),
  });
}

function stopIt(server: { stop?: () => unknown; close?: () => unknown }): unknown {
  return server.stop === undefined ? server.close?.() : server.stop();
}
