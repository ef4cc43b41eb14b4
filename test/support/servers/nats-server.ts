import { responses } from './responses.js';
import { findServer, requireServer } from './find-executable.js';
import { startServer, type Place, type StartedServer } from './start-server.js';

const PING = Buffer.from('CONNECT {"verbose":false}\r\nPING\r\n');

export interface StartNatsOptions extends Place {
  /**
   * Keeps streams in the server's folder.
   *
   * @defaultValue false
   */
  readonly jetStream?: boolean;
  /** Further arguments of nats-server. */
  readonly args?: readonly string[];
}

export interface NatsServer extends StartedServer {
  readonly url: string;
}

const PROGRAM = ['nats-server', 'NATS_SERVER_BIN'] as const;

/** The nats-server that NATS_SERVER_BIN names, else one on PATH. */
export const findNats = () => findServer(...PROGRAM);

/** Starts a separate nats-server on 127.0.0.1, and waits until it answers. */
export async function startNats(options: StartNatsOptions = {}): Promise<NatsServer> {
  const { jetStream = false, args = [] } = options;
  const program = requireServer(...PROGRAM);
  const server = await startServer('nats-server', options, (port, dir) => ({
    program,
    args: [
      ...['--addr', '127.0.0.1', '--port', String(port)],
      ...(jetStream ? ['--jetstream', '--store_dir', dir] : []),
      ...args,
    ],
    readyLog: /Server is ready/,
    isReady: () => responses(port, PING, /PONG\r\n/),
  }));
  return { ...server, url: `nats://127.0.0.1:${String(server.port)}` };
}
