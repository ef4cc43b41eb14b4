import { EventEmitter } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { clientDisconnectOf } from '../../support/internals/call.js';

class Connection extends EventEmitter {
  destroyed = false;
}

describe('the disconnect of a caller', () => {
  it.each([
    ['the socket of its request', (socket: Connection) => ({ socket })],
    ['the socket of the request below Fastify’s', (socket: Connection) => ({ raw: { socket } })],
    [
      'the stream of HTTP/2, whose socket stays open',
      (stream: Connection) => ({ stream, socket: new Connection() }),
    ],
  ])('is the end of %s', (_, requestOf) => {
    const connection = new Connection();
    const { signal } = clientDisconnectOf(requestOf(connection));
    expect(signal.aborted).toBe(false);
    connection.emit('close');
    expect(signal.aborted).toBe(true);
  });

  it('may precede the subscription', () => {
    const socket = new Connection();
    socket.destroyed = true;
    expect(clientDisconnectOf({ socket }).signal.aborted).toBe(true);
  });

  it('leaves no listener behind on a connection that stays open', () => {
    const socket = new Connection();
    clientDisconnectOf({ socket }).forget();
    expect(socket.listenerCount('close')).toBe(0);
  });

  it('is unknown where there is no connection', () => {
    const disconnect = clientDisconnectOf(undefined);
    disconnect.forget();
    expect(disconnect.signal.aborted).toBe(false);
    expect(clientDisconnectOf({ socket: {} }).signal.aborted).toBe(false);
  });
});
