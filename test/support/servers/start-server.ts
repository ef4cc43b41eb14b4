import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { onFreePort } from './free-port.js';

const POLL_MS = 20;
const STOP_TIMEOUT_MS = 10_000;
const LOG_LENGTH = 10_000;

export interface Place {
  /** Where to listen instead of on a free port: a restarted server keeps its address. */
  readonly port?: number | undefined;
  /** The working directory of a restarted server; {@link StartedServer.stop} keeps it. */
  readonly dir?: string | undefined;
}

export interface ServerCommand {
  /** A path, or a name on PATH. */
  readonly program: string;
  readonly args: readonly string[];
  /**
   * All of its environment.
   *
   * @defaultValue that of this process
   */
  readonly env?: Readonly<NodeJS.ProcessEnv>;
  /** The user that runs it, if not the user of this process. */
  readonly user?: { readonly uid: number; readonly gid: number } | undefined;
  /** What it writes when it has its port. On that port another server might answer. */
  readonly readyLog: RegExp;
  /** Whether it serves a client. Called until the result is true. */
  readonly isReady?: () => Promise<boolean>;
  /** @defaultValue SIGTERM */
  readonly stopSignal?: NodeJS.Signals;
  /**
   * Ends a server that does not stop in time, or whose process here has ended.
   *
   * @defaultValue SIGKILL
   */
  readonly lastSignal?: NodeJS.Signals;
  /** What it needs beside it, and what ends after it. */
  readonly companion?: StartedServer;
}

/** A server that is a child of this process, and ends with it even after SIGKILL. */
export interface StartedServer {
  readonly pid: number;
  readonly port: number;
  /** Its working directory; {@link stop} removes it unless it was given. */
  readonly dir: string;
  /** Its output so far. */
  readonly log: readonly string[];
  /** Resolves when it has exited. */
  stop(): Promise<void>;
  /** Sends a signal to this very process, without waiting for the effect. */
  kill(signal: NodeJS.Signals): void;
}

/**
 * Starts a server at `place`, else on a free port of 127.0.0.1 and in a new folder, and waits until it
 * serves.
 *
 * @param name - for messages.
 * @param describe - for each port that is tried.
 */
export async function startServer(
  name: string,
  place: Place,
  describe: (port: number, dir: string) => ServerCommand | Promise<ServerCommand>,
): Promise<StartedServer> {
  const dir = place.dir ?? mkdtempSync(join(tmpdir(), `idempotency-${name}-`));
  const removeDir = () => {
    if (place.dir === undefined) rmSync(dir, { recursive: true, force: true });
  };
  const launchAt = async (port: number) => ({
    port,
    ...(await launch(name, dir, await describe(port, dir))),
  });
  try {
    const server = await (place.port === undefined ? onFreePort(launchAt) : launchAt(place.port));
    const stop = async () => {
      await server.stop();
      removeDir();
    };
    return { ...server, dir, stop };
  } catch (error) {
    removeDir();
    throw error;
  }
}

async function launch(name: string, dir: string, command: ServerCommand) {
  const { program, args, env = process.env, user, companion } = command;
  const { stopSignal = 'SIGTERM', lastSignal = 'SIGKILL' } = command;
  // A path is relative to here, not to the server's directory; a bare name is looked up on PATH.
  const file = basename(program) === program ? program : resolve(program);
  const child = spawn(file, args, { ...user, cwd: dir, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const log: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => void log.push(chunk.toString()));
    unref(stream);
  }
  child.unref();
  const watchdog = endWithThisProcess(child, dir, lastSignal);
  const stop = async () => {
    if (isRunning(child)) {
      const exited = once(child, 'exit');
      child.ref();
      child.kill(stopSignal);
      const overdue = setTimeout(() => child.kill(lastSignal), STOP_TIMEOUT_MS);
      await exited;
      clearTimeout(overdue);
    }
    watchdog?.kill('SIGKILL');
    await companion?.stop();
  };
  try {
    await serves(child, command, log);
  } catch (error) {
    await stop();
    const end = log.join('').slice(-LOG_LENGTH);
    throw new Error(`${name} did not start: ${String(error)}\n${end}`, { cause: error });
  }
  return { pid: child.pid!, log, stop, kill: (signal: NodeJS.Signals) => void child.kill(signal) };
}

/**
 * A shell that reads from this process until that ends, and then ends the server and removes its folder. It
 * waits at most two seconds for the end: where nothing reaps the dead, the server never seems gone. Exit
 * listeners would not do: they do not run after SIGKILL, nor those that are registered inside Jest's sandbox.
 */
function endWithThisProcess(
  server: ChildProcess,
  dir: string,
  signal: NodeJS.Signals,
): ChildProcess | undefined {
  if (server.pid === undefined) return undefined;
  const isGone = 'for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$1" || break; sleep 0.2; done';
  const script = `read _; kill -s "$3" "$1"; ${isGone}; rm -rf "$2"`;
  const values = [String(server.pid), dir, signal.replace(/^SIG/, '')];
  const watchdog = spawn('sh', ['-c', script, 'sh', ...values], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  watchdog.unref();
  unref(watchdog.stdin);
  // The id of a dead server may be given to another process.
  server.once('exit', () => watchdog.kill('SIGKILL'));
  return watchdog;
}

async function serves(
  child: ChildProcess,
  { readyLog, isReady }: ServerCommand,
  log: readonly string[],
): Promise<void> {
  if (child.pid === undefined) {
    const [failure] = (await once(child, 'error')) as [Error];
    throw failure;
  }
  const deadline = performance.now() + START_MS;
  while (performance.now() < deadline) {
    if (!isRunning(child)) throw new Error(`it ended with code ${String(child.exitCode)}`);
    if (readyLog.test(log.join('')) && ((await isReady?.()) ?? true)) return;
    await delay(POLL_MS);
  }
  throw new Error(`it did not serve within ${String(START_MS)} ms`);
}

function isRunning(child: ChildProcess): boolean {
  return child.pid !== undefined && child.exitCode === null && child.signalCode === null;
}

function unref(stream: object): void {
  (stream as { unref?: () => void }).unref?.();
}

/** How long a server may take until it serves, on a busy machine. */
export const START_MS = 150_000;

/** The timeout of a hook that starts a server: longer, so that a failure names the server and the reason. */
export const START_HOOK_MS = START_MS + 30_000;
