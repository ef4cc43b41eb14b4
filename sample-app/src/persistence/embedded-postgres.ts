import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { extname } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

// Compiled beside compiled, source beside source: tests run both as TypeScript.
const PROGRAM = fileURLToPath(
  new URL(`embedded-postgres.process${extname(import.meta.url)}`, import.meta.url),
);

export interface EmbeddedServer {
  readonly url: string;
  /** Stops it and removes its data. */
  stop(): Promise<void>;
}

/**
 * Starts a PostgreSQL for this process alone, with an empty database. A separate process supervises it: it stops
 * the server when this process has ended for any reason, and Ctrl-C does not reach it before the application has
 * completed its requests.
 */
export async function startEmbeddedPostgres(): Promise<EmbeddedServer> {
  const keeper = spawn(process.execPath, [...process.execArgv, PROGRAM], {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  });
  const complaints = text(keeper.stderr);
  const exited = once(keeper, 'exit');
  for await (const url of createInterface(keeper.stdout)) {
    return {
      url,
      stop: async () => {
        keeper.stdin.end();
        await exited;
      },
    };
  }
  throw new Error(`The embedded PostgreSQL did not start:\n${await complaints}`);
}
