import { responses } from '../servers/responses.js';
import { requireServer } from '../servers/find-executable.js';
import { startServer, type Place, type StartedServer } from '../servers/start-server.js';

const PING = Buffer.from('PING\r\n');

export interface StartRedisOptions extends Place {
  /** Further arguments of redis-server; a later one overrides an earlier one. */
  readonly args?: readonly string[];
  /** A configuration file, which the server may rewrite. */
  readonly configFile?: string;
  /** Environment variables besides those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** A program that runs the server, and its arguments. */
  readonly under?: readonly string[];
}

export interface RedisServer extends StartedServer {
  readonly url: string;
}

/** Starts a separate redis-server on 127.0.0.1, without persistence, and waits until it answers. */
export async function startRedis(options: StartRedisOptions = {}): Promise<RedisServer> {
  const { args = [], configFile, env, under = [] } = options;
  const found = requireServer('redis-server', 'REDIS_SERVER_BIN');
  const [program, ...before] = under.length === 0 ? [found] : [...under, found];
  const server = await startServer('redis-server', options, (port, dir) => ({
    program,
    args: [
      ...before,
      ...(configFile === undefined ? [] : [configFile]),
      ...['--port', String(port), '--bind', '127.0.0.1', '--dir', dir],
      ...['--save', '', '--appendonly', 'no', '--daemonize', 'no'],
      ...args,
    ],
    env: { ...process.env, ...env },
    // The second is a Sentinel's.
    readyLog: /Ready to accept connections|Sentinel ID is/,
    isReady: () => responses(port, PING, /^\+PONG/),
  }));
  return { ...server, url: `redis://127.0.0.1:${String(server.port)}` };
}
