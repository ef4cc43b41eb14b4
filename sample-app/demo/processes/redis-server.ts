import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { freePort } from '../../src/free-port.js';
import { findProgram } from './find-program.js';

export interface RedisServer {
  readonly url: string;
  readonly version: string;
  stop(): Promise<void>;
}

/** @throws Error with the way to install redis-server if it is missing. */
export async function startRedisServer(folder: string): Promise<RedisServer> {
  const binary = findRedisServer();
  const port = await freePort();
  const child = spawn(
    binary,
    ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', folder],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const exited = once(child, 'exit');
  const version = await new Promise<string>((resolve, reject) => {
    let log = '';
    child.stdout.on('data', (chunk: Buffer) => {
      log += chunk.toString();
      if (log.includes('Ready to accept connections')) {
        resolve(/version=([\d.]+)/.exec(log)?.[1] ?? '');
      }
    });
    void exited.then(() => {
      reject(new Error(`redis-server did not start:\n${log}`));
    });
  });
  return {
    url: `redis://127.0.0.1:${port}`,
    version,
    stop: async () => {
      child.kill();
      await exited;
    },
  };
}

function findRedisServer(): string {
  const program = findProgram('redis-server');
  if (program !== undefined) return program;
  throw new Error(
    'The demo needs redis-server, which is not on the PATH. On Debian and Ubuntu: apt-get install redis-server',
  );
}
