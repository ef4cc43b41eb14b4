import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { endWithThisProcess } from './end-with-this-process.js';
import { freePort } from './free-port.js';

const START_TIMEOUT_MS = 10_000;
const STOP_TIMEOUT_MS = 2_000;
const PORT_ATTEMPTS = 5;

export interface StartRedisOptions {
  /** Further arguments of redis-server; a later one overrides an earlier one. */
  args?: string[];
  /** A configuration file, which the server may rewrite. */
  configFile?: string;
  /** Where to listen instead of on a free port: a server that comes back has its address. */
  port?: number;
  /** The working directory of a server that comes back; {@link RedisServer.stop} leaves it. */
  dir?: string;
  /** Environment variables besides those of this process. */
  env?: Readonly<Record<string, string>>;
}

export interface RedisServer {
  readonly port: number;
  readonly url: string;
  readonly pid: number;
  /** The server's working directory; {@link stop} removes it unless it was given. */
  readonly dir: string;
  /** SIGTERM, and SIGKILL for a server that does not obey within two seconds. */
  stop(): Promise<void>;
  /** Sends a signal to this very process, without waiting for the effect. */
  kill(signal: NodeJS.Signals): void;
}

/** Starts a redis-server of one's own on 127.0.0.1, without persistence, and waits until it answers. */
export async function startRedis(options: StartRedisOptions = {}): Promise<RedisServer> {
  const binary = findRedisServer();
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await launch(binary, options.port ?? (await freePort()), options);
    } catch (error) {
      // Another process may have taken the port between finding and binding it.
      const portTaken = error instanceof Error && error.message.includes('Address already in use');
      if (!portTaken || options.port !== undefined || attempt === PORT_ATTEMPTS) throw error;
    }
  }
}

async function launch(
  binary: string,
  port: number,
  { args = [], configFile, dir: givenDir, env }: StartRedisOptions,
): Promise<RedisServer> {
  const dir = givenDir ?? mkdtempSync(join(tmpdir(), 'idempotency-redis-'));
  const child = spawn(
    binary,
    // prettier-ignore
    [
      ...(configFile === undefined ? [] : [configFile]),
      '--port', String(port), '--bind', '127.0.0.1', '--dir', dir,
      '--save', '', '--appendonly', 'no', '--daemonize', 'no',
      ...args,
    ],
    { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } },
  );
  let log = '';
  const remember = (chunk: Buffer) => {
    log = (log + chunk.toString()).slice(-10_000);
  };
  child.stdout.on('data', remember);
  child.stderr.on('data', remember);
  child.unref();
  unref(child.stdout);
  unref(child.stderr);
  const watchdog = guard(child, dir);

  const stop = async () => {
    if (isRunning(child)) {
      const exited = once(child, 'exit');
      child.ref();
      child.kill('SIGTERM');
      const impatient = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
      await exited;
      clearTimeout(impatient);
    }
    watchdog?.kill('SIGKILL');
    if (givenDir === undefined) rmSync(dir, { recursive: true, force: true });
  };

  try {
    await answersPing(child, port);
  } catch (error) {
    await stop();
    throw new Error(`redis-server did not start on port ${port}: ${log || String(error)}`, {
      cause: error,
    });
  }
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    pid: child.pid!,
    dir,
    stop,
    kill: (signal) => void child.kill(signal),
  };
}

function guard(server: ChildProcess, dir: string): ChildProcess | undefined {
  if (server.pid === undefined) return undefined;
  const watchdog = endWithThisProcess(server.pid, dir, 'kill -9 "$1"');
  // The number of a dead server may be given to another process.
  server.once('exit', () => watchdog.kill('SIGKILL'));
  return watchdog;
}

function findRedisServer(): string {
  const named = process.env.REDIS_SERVER_BIN;
  if (named !== undefined) return named;
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const candidate = join(folder, 'redis-server');
    try {
      accessSync(candidate, constants.X_OK);
      return candidate;
    } catch {
      continue;
    }
  }
  throw new Error(
    'redis-server was not found on PATH: install it (Debian: apt-get install redis-server) or name it in REDIS_SERVER_BIN',
  );
}

async function answersPing(child: ChildProcess, port: number): Promise<void> {
  if (child.pid === undefined) {
    const [failure] = (await once(child, 'error')) as [Error];
    throw failure;
  }
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (Date.now() < deadline) {
    if (!isRunning(child)) throw new Error(`it ended with code ${child.exitCode}`);
    if (await ping(port)) return;
    await delay(20);
  }
  throw new Error(`no PONG within ${START_TIMEOUT_MS} ms`);
}

function ping(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    const answer = (pong: boolean) => {
      socket.destroy();
      resolve(pong);
    };
    socket.setTimeout(500, () => answer(false));
    socket.once('error', () => answer(false));
    socket.once('close', () => resolve(false));
    socket.once('data', (data) => answer(data.toString().startsWith('+PONG')));
    socket.once('connect', () => socket.write('PING\r\n'));
  });
}

function isRunning(child: ChildProcess): boolean {
  return child.pid !== undefined && child.exitCode === null && child.signalCode === null;
}

function unref(stream: object): void {
  (stream as { unref?: () => void }).unref?.();
}
