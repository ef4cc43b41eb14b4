import { once } from 'node:events';
import { io, type ManagerOptions, type Socket, type SocketOptions } from 'socket.io-client';
import { WebSocket } from 'ws';

/** Nest's adapters, named by their protocol. */
export type SocketPlatform = 'socket.io' | 'ws';

/** A client's connection, by either protocol. */
export interface SocketClient {
  send(event: string, payload: unknown): void;
  /** The next message: `{ event, data }`, or with ws what the handler returned. */
  next(): Promise<any>;
  /** Sends, and waits for the next message. */
  ask(event: string, payload: unknown): Promise<any>;
  /** Disconnects, and resolves when the connection is closed. */
  close(): Promise<void>;
}

/** @param as - the caller; anonymous by default. */
export function connectClient(
  platform: SocketPlatform,
  port: number,
  as?: string,
): Promise<SocketClient> {
  return platform === 'ws' ? connectWs(port, as) : connectSocketIo(port, as);
}

export interface SocketIoClient extends SocketClient {
  readonly socket: Socket;
  /** Sends, and waits for the acknowledgement. */
  acked(event: string, payload: unknown): Promise<any>;
}

export async function connectSocketIo(
  port: number,
  as?: string,
  options: Partial<ManagerOptions & SocketOptions> & { readonly namespace?: string } = {},
): Promise<SocketIoClient> {
  const { namespace = '', ...others } = options;
  const socket = io(`http://127.0.0.1:${port}${namespace}`, {
    transports: ['websocket'],
    forceNew: true,
    reconnection: false,
    ...(as !== undefined && { query: { as } }),
    ...others,
  });
  const inbox = new Inbox<object>();
  socket.onAny((event: string, data: unknown) => inbox.put({ event, data }));
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('connect_error', reject);
  });
  const send = (event: string, payload: unknown) => void socket.emit(event, payload);
  return {
    socket,
    send,
    next: () => inbox.take(),
    ask: (event, payload) => {
      send(event, payload);
      return inbox.take();
    },
    acked: (event, payload) => socket.emitWithAck(event, payload),
    close: async () => {
      if (!socket.connected) return;
      const engine = socket.io.engine;
      const closed = new Promise<void>((resolve) => engine.once('close', () => resolve()));
      socket.disconnect();
      await closed;
    },
  };
}

async function connectWs(port: number, as?: string): Promise<SocketClient> {
  const query = as === undefined ? '' : `?${new URLSearchParams({ as }).toString()}`;
  const socket = new WebSocket(`ws://127.0.0.1:${port}/${query}`);
  const inbox = new Inbox<object>();
  socket.on('message', (data: Buffer) => inbox.put(JSON.parse(data.toString()) as object));
  await once(socket, 'open');
  const send = (event: string, data: unknown) => {
    socket.send(JSON.stringify({ event, data }));
  };
  return {
    send,
    next: () => inbox.take(),
    ask: (event, payload) => {
      send(event, payload);
      return inbox.take();
    },
    close: async () => {
      if (socket.readyState === WebSocket.CLOSED) return;
      const closed = once(socket, 'close');
      socket.close();
      await closed;
    },
  };
}

/** The messages that a client has received, in order. `take` waits if there is none. */
class Inbox<Item> {
  readonly #items: Item[] = [];
  readonly #takers: ((item: Item) => void)[] = [];

  put(item: Item): void {
    const taker = this.#takers.shift();
    if (taker === undefined) this.#items.push(item);
    else taker(item);
  }

  take(): Promise<Item> {
    if (this.#items.length > 0) return Promise.resolve(this.#items.shift()!);
    return new Promise((resolve) => this.#takers.push(resolve));
  }
}
