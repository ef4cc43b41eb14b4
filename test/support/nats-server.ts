import { answers } from './answers.js';
import { findExecutable, isExecutable } from './find-executable.js';
import { startServerProcess } from './server-process.js';
import { START_MS } from './start-patience.js';
import { startServerAt, type Place, type StartedServer } from './started-server.js';

const STOP_TIMEOUT_MS = 2_000;

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

/** The nats-server that NATS_SERVER_BIN names, else one on PATH. */
export function findNats(): string | undefined {
  const program = process.env.NATS_SERVER_BIN ?? findExecutable('nats-server');
  return program !== undefined && isExecutable(program) ? program : undefined;
}

/** Starts a nats-server of one's own on 127.0.0.1, and waits until it answers. */
export async function startNats(options: StartNatsOptions = {}): Promise<NatsServer> {
  const { jetStream = false, args = [] } = options;
  const program = findNats();
  if (program === undefined) {
    throw new Error(
      'nats-server was not found on PATH: install it (Debian: apt-get install nats-server) or name it in NATS_SERVER_BIN',
    );
  }
  const server = await startServerAt('nats', options, (port, dir) =>
    startServerProcess({
      name: 'nats-server',
      program,
      args: [
        ...['--addr', '127.0.0.1', '--port', String(port)],
        ...(jetStream ? ['--jetstream', '--store_dir', dir] : []),
        ...args,
      ],
      dir,
      readyLog: /Server is ready/,
      isReady: () => answers(port, PING, /PONG\r\n/),
      startTimeoutMs: START_MS,
      stopTimeoutMs: STOP_TIMEOUT_MS,
    }),
  );
  return { ...server, url: `nats://127.0.0.1:${String(server.port)}` };
}
