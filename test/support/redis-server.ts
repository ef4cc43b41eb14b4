import { answers } from './answers.js';
import { findExecutable } from './find-executable.js';
import { startServerProcess } from './server-process.js';
import { START_MS } from './start-patience.js';
import { startServerAt, type Place, type StartedServer } from './started-server.js';

const STOP_TIMEOUT_MS = 2_000;

const PING = Buffer.from('PING\r\n');

/** The second is what a Sentinel says. */
const READY = /Ready to accept connections|Sentinel ID is/;

export interface StartRedisOptions extends Place {
  /** Further arguments of redis-server; a later one overrides an earlier one. */
  readonly args?: readonly string[];
  /** A configuration file, which the server may rewrite. */
  readonly configFile?: string;
  /** Environment variables besides those of this process. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface RedisServer extends StartedServer {
  readonly url: string;
}

/** Starts a redis-server of one's own on 127.0.0.1, without persistence, and waits until it answers. */
export async function startRedis(options: StartRedisOptions = {}): Promise<RedisServer> {
  const { args = [], configFile, env } = options;
  const program = process.env.REDIS_SERVER_BIN ?? findExecutable('redis-server');
  if (program === undefined) {
    throw new Error(
      'redis-server was not found on PATH: install it (Debian: apt-get install redis-server) or name it in REDIS_SERVER_BIN',
    );
  }
  const server = await startServerAt('redis', options, (port, dir) =>
    startServerProcess({
      name: 'redis-server',
      program,
      args: [
        ...(configFile === undefined ? [] : [configFile]),
        ...['--port', String(port), '--bind', '127.0.0.1', '--dir', dir],
        ...['--save', '', '--appendonly', 'no', '--daemonize', 'no'],
        ...args,
      ],
      dir,
      env: { ...process.env, ...env },
      readyLog: READY,
      isReady: () => answers(port, PING, /^\+PONG/),
      startTimeoutMs: START_MS,
      stopTimeoutMs: STOP_TIMEOUT_MS,
    }),
  );
  return { ...server, url: `redis://127.0.0.1:${String(server.port)}` };
}
