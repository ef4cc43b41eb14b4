import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { RespReader, wordsOf } from '../../../support/redis/proxy/resp-reader.js';

export interface CannedServer {
  readonly port: number;
  readonly url: string;
  stop(): Promise<void>;
}

/** Accepts connections and never replies. */
export function startSilentServer(): Promise<CannedServer> {
  return listen((socket) => socket.resume());
}

/**
 * Speaks enough RESP2 for a client to connect, and returns the next of `replies` to each script call, with the nonce of
 * the call for {@link NONCE}. For replies that a real server gives only in states that a test cannot create.
 */
export function startScriptedServer(
  replies: readonly (string | undefined)[],
): Promise<CannedServer> {
  const left = [...replies];
  return reply(([command, ...args]) => {
    if (!command!.startsWith('eval')) return '+OK';
    const [text, keys, word = '', nonce = ''] = args;
    // The trial of own commands, on a connection that the store opens.
    if (keys === '0' && text === 'return ARGV[1]') return `+${word}`;
    if (keys === '0' && command === 'evalsha') return '-NOSCRIPT No matching script.';
    // The question for the user's rights, at the start.
    if (text?.includes('failure(ARGV[2]') === true) return `+${nonce} `;
    return left.shift()?.replace(NONCE, nonce);
  });
}

/** The placeholder for the nonce in a reply. */
const NONCE = '<nonce>';

/** The reply of a begin that acquired a record. */
export const ACQUIRED = `+${NONCE} acquired 7 1 1 0`;

/** Lets a client connect, and replies to INFO with `info`. */
export function startInfoServer(info: string): Promise<CannedServer> {
  return reply(([command]) => (command === 'info' ? `$${info.length}\r\n${info}` : '+OK'));
}

/** Compiles no script with flags, whatever its version says: that of another server of its cluster may. */
export function startServerWithoutFlags(
  version: string,
  flagsError: string,
): Promise<CannedServer> {
  const info = `redis_version:${version}\r\n`;
  return reply(([command, text = '', , , nonce = '']) => {
    if (command === 'info') return `$${info.length}\r\n${info}`;
    if (command === 'wait') return ':1';
    if (command === 'evalsha') return '-NOSCRIPT No matching script. Please use EVAL.';
    if (command !== 'eval') return '+OK';
    return text.startsWith('#!') ? flagsError : `+${nonce} ok`;
  });
}

/** `replyTo` returns the reply; `undefined` sends none. */
function reply(replyTo: (words: string[]) => string | undefined): Promise<CannedServer> {
  return listen((socket) => {
    const requests = new RespReader();
    socket.on('data', (data) => {
      const replies = requests.read(data).map((request) => {
        const [command, ...args] = wordsOf(request).map(String);
        const reply = replyTo([command!.toLowerCase(), ...args]);
        return reply === undefined ? '' : `${reply}\r\n`;
      });
      socket.write(replies.join(''));
    });
  });
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
