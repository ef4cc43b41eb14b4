import { TcpRelay } from '../../../support/servers/tcp-relay.js';

/** The last message of PostgreSQL during a connect. */
const READY_FOR_QUERY = Buffer.from([0x5a, 0, 0, 0, 5, 0x49]);

/** A server that terminates each connection in the same packet that reports it ready. */
export async function startHastyRelay(
  url: string,
): Promise<{ url: string; stop(): Promise<void> }> {
  const relay = await TcpRelay.start(Number(new URL(url).port));
  relay.report(({ client, server }) => {
    client.on('data', (chunk) => server.write(chunk));
    server.on('data', (chunk: Buffer) => {
      const isReady = chunk.subarray(-READY_FOR_QUERY.length).equals(READY_FOR_QUERY);
      client.write(isReady ? Buffer.concat([chunk, termination()]) : chunk);
      if (isReady) client.end();
    });
  });
  return { url: relay.through(url), stop: () => relay.stop() };
}

function termination(): Buffer {
  const fields = ['SFATAL', 'VFATAL', 'C57P01', 'Mterminating connection', ''];
  const body = Buffer.from(fields.map((field) => `${field}\0`).join(''));
  const head = Buffer.from('E\0\0\0\0');
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}
