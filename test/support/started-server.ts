import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onFreePort } from './on-free-port.js';
import type { ServerProcess } from './server-process.js';

export interface Place {
  /** Where to listen instead of on a free port: a server that comes back has its address. */
  readonly port?: number | undefined;
  /** The working directory of a server that comes back; {@link StartedServer.stop} leaves it. */
  readonly dir?: string | undefined;
}

export interface StartedServer extends ServerProcess {
  readonly port: number;
  /** The server's working directory; {@link stop} removes it unless it was given. */
  readonly dir: string;
}

/**
 * Starts a server where it is told to be, else on a free port of 127.0.0.1 and in a new folder.
 *
 * @param name - begins the name of the folder.
 */
export async function startServerAt<Server extends ServerProcess>(
  name: string,
  place: Place,
  launch: (port: number, dir: string) => Promise<Server>,
): Promise<Server & StartedServer> {
  const dir = place.dir ?? mkdtempSync(join(tmpdir(), `idempotency-${name}-`));
  const removeDir = () => {
    if (place.dir === undefined) rmSync(dir, { recursive: true, force: true });
  };
  const launchAt = async (port: number) => ({ port, server: await launch(port, dir) });
  try {
    const { port, server } = await (place.port === undefined
      ? onFreePort(launchAt)
      : launchAt(place.port));
    return {
      ...server,
      port,
      dir,
      stop: async () => {
        await server.stop();
        removeDir();
      },
    };
  } catch (error) {
    removeDir();
    throw error;
  }
}
