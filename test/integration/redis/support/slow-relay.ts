import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** So many bytes of a reply come through at a time, and then nothing for {@link SLOW_PAUSE_MS}. */
export const SLOW_CHUNK = 4_096;
const SLOW_PAUSE_MS = 25;

/** Lets requests pass, and replies trickle. */
export async function startSlowRelay(port: number) {
  let connections = 0;
  const server = createServer((client) => {
    connections += 1;
    const upstream = connect(port, '127.0.0.1');
    client.pipe(upstream);
    client.on('error', () => upstream.destroy()).on('close', () => upstream.destroy());
    upstream.on('error', () => client.destroy()).on('close', () => client.destroy());
    void (async () => {
      for await (const chunk of upstream) {
        const data = chunk as Buffer;
        for (let at = 0; at < data.length && client.writable; at += SLOW_CHUNK) {
          client.write(data.subarray(at, at + SLOW_CHUNK));
          if (data.length > SLOW_CHUNK) await delay(SLOW_PAUSE_MS);
        }
      }
    })().catch(() => undefined);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `redis://127.0.0.1:${String((server.address() as AddressInfo).port)}`,
    connections: () => connections,
    stop: async () => {
      server.close();
      await Promise.resolve();
    },
  };
}
