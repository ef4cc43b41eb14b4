import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';

export interface CannedServer {
  readonly port: number;
  readonly url: string;
  stop(): Promise<void>;
}

/** Accepts connections and never says a word. */
export function startSilentServer(): Promise<CannedServer> {
  return listen((socket) => socket.resume());
}

/**
 * Speaks just enough RESP2 to let a client connect, and gives each call of a script the next of `replies`:
 * for what a real server says only in states that cannot be brought about at will.
 */
export function startScriptedServer(replies: string[]): Promise<CannedServer> {
  const left = [...replies];
  return answer((command) => (command.startsWith('eval') ? left.shift() : '+OK'));
}

/** Lets a client connect, and answers INFO with `info`. */
export function startInfoServer(info: string): Promise<CannedServer> {
  return answer((command) => (command === 'info' ? `$${info.length}\r\n${info}` : '+OK'));
}

/** No reply where there is none to give. */
function answer(replyTo: (command: string) => string | undefined): Promise<CannedServer> {
  return listen((socket) =>
    socket.on('data', (data) => {
      for (const [, command] of data.toString().matchAll(/\*\d+\r\n\$\d+\r\n([a-zA-Z]+)\r\n/g)) {
        const reply = replyTo(command!.toLowerCase());
        if (reply !== undefined) socket.write(`${reply}\r\n`);
      }
    }),
  );
}

async function listen(onConnection: (socket: Socket) => void): Promise<CannedServer> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    onConnection(socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    stop: () =>
      new Promise<void>((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
}
