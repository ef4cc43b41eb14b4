import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { basename, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { endWithThisProcess } from './end-with-this-process.js';

const POLL_MS = 20;
const LOG_LENGTH = 10_000;

export interface ServerCommand {
  /** As a person would call it. */
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  /** Its working directory, which goes with this process should that be killed. */
  readonly dir: string;
  /**
   * All of its environment.
   *
   * @defaultValue that of this process
   */
  readonly env?: Readonly<NodeJS.ProcessEnv>;
  /** What it writes when it has its port. On that port another server might answer. */
  readonly readyLog: RegExp;
  /** Whether it serves a client. Asked until the answer is yes. */
  readonly isReady?: () => Promise<boolean>;
  readonly startTimeoutMs: number;
  readonly stopTimeoutMs: number;
}

/** A server that is a child of this process, and ends with it even after SIGKILL. */
export interface ServerProcess {
  readonly pid: number;
  /** SIGTERM, and SIGKILL for a server that does not obey in time. Resolves when it is gone. */
  stop(): Promise<void>;
  /** Sends a signal to this very process, without waiting for the effect. */
  kill(signal: NodeJS.Signals): void;
}

/** Starts a server and waits until it serves. */
export async function startServerProcess(command: ServerCommand): Promise<ServerProcess> {
  const { name, program, args, dir, env = process.env, stopTimeoutMs } = command;
  // A path is one from here, not from the server's directory; a mere name is looked up on PATH.
  const file = basename(program) === program ? program : resolve(program);
  const child = spawn(file, args, { cwd: dir, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      log = (log + chunk.toString()).slice(-LOG_LENGTH);
    });
    unref(stream);
  }
  child.unref();
  const watchdog = guard(child, dir);

  const stop = async () => {
    if (isRunning(child)) {
      const exited = once(child, 'exit');
      child.ref();
      child.kill('SIGTERM');
      const impatient = setTimeout(() => child.kill('SIGKILL'), stopTimeoutMs);
      await exited;
      clearTimeout(impatient);
    }
    watchdog?.kill('SIGKILL');
  };

  try {
    await serves(child, command, () => log);
  } catch (error) {
    await stop();
    throw new Error(`${name} did not start: ${String(error)}\n${log}`, { cause: error });
  }
  return { pid: child.pid!, stop, kill: (signal) => void child.kill(signal) };
}

function guard(server: ChildProcess, dir: string): ChildProcess | undefined {
  if (server.pid === undefined) return undefined;
  const watchdog = endWithThisProcess(server.pid, dir, 'kill -9 "$1"');
  // The number of a dead server may be given to another process.
  server.once('exit', () => watchdog.kill('SIGKILL'));
  return watchdog;
}

async function serves(
  child: ChildProcess,
  { readyLog, isReady, startTimeoutMs }: ServerCommand,
  log: () => string,
): Promise<void> {
  if (child.pid === undefined) {
    const [failure] = (await once(child, 'error')) as [Error];
    throw failure;
  }
  const deadline = performance.now() + startTimeoutMs;
  while (performance.now() < deadline) {
    if (!isRunning(child)) throw new Error(`it ended with code ${String(child.exitCode)}`);
    if (readyLog.test(log()) && ((await isReady?.()) ?? true)) return;
    await delay(POLL_MS);
  }
  throw new Error(`it did not serve within ${String(startTimeoutMs)} ms`);
}

function isRunning(child: ChildProcess): boolean {
  return child.pid !== undefined && child.exitCode === null && child.signalCode === null;
}

function unref(stream: object): void {
  (stream as { unref?: () => void }).unref?.();
}
