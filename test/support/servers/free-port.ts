import { createServer, type AddressInfo } from 'node:net';

/** A TCP port of 127.0.0.1 without a listener at this moment. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const PORT_ATTEMPTS = 5;

/** As servers and their runtimes report it. */
const PORT_TAKEN = /address already in use|eaddrinuse|already a epmd running/i;

/** Another process may take a port between finding and binding it: then try another port. */
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
