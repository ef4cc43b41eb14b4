import { freePort } from './free-port.js';

const PORT_ATTEMPTS = 5;

/** As servers and their runtimes say it. */
const PORT_TAKEN = /address already in use|eaddrinuse|already a epmd running/i;

/** Another process may take a port between finding and binding it: then another port. */
export async function onFreePort<Result>(
  launch: (port: number) => Promise<Result>,
): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await launch(await freePort());
    } catch (error) {
      const isPortTaken = error instanceof Error && PORT_TAKEN.test(error.message);
      if (!isPortTaken || attempt === PORT_ATTEMPTS) throw error;
    }
  }
}
