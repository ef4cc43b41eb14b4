import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { outsideEnvironment } from '../../support/processes/processes.js';

const TIMEOUT_MS = 240_000;

/** Spares the registry, and prints no advertisement. Nothing of it is needed for a command to succeed. */
const NPM = {
  npm_config_prefer_offline: 'true',
  npm_config_audit: 'false',
  npm_config_fund: 'false',
  npm_config_update_notifier: 'false',
};

export interface CommandOptions {
  readonly cwd: string;
  /** The folder of the Node that runs it, and its child processes. */
  readonly bin?: string;
  readonly env?: NodeJS.ProcessEnv;
}

/** Runs a program to its end. Rejects with all its output if it fails, or does not end. */
export async function runCommand(
  program: string,
  args: readonly string[],
  { cwd, bin, env }: CommandOptions,
): Promise<string> {
  const child = spawn(program, args, {
    cwd,
    env: { ...environmentOf(bin), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A separate group, which is ended as a whole: npm does not end its children.
    detached: true,
  });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (log += chunk.toString()));
  }
  const timeoutTimer = setTimeout(() => process.kill(-child.pid!, 'SIGKILL'), TIMEOUT_MS);
  try {
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
    if (code === 0) return log;
    throw new Error(`${[program, ...args].join(' ')} ended with ${code ?? signal}:\n${log}`);
  } finally {
    clearTimeout(timeoutTimer);
  }
}

/** The environment of a terminal whose Node is the one in `bin`. */
export function environmentOf(bin: string | undefined): NodeJS.ProcessEnv {
  const { NODE_ENV, JEST_WORKER_ID, FORCE_COLOR, ...rest } = outsideEnvironment();
  const path = bin === undefined ? rest.PATH : `${bin}:${rest.PATH ?? ''}`;
  return { ...rest, ...NPM, PATH: path, NO_COLOR: '1' };
}
