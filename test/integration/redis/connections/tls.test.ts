import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, describe, expect, it } from '@jest/globals';
import type { RedisConnectionOptions } from 'nestjs-idempotency/redis';
import {
  RedisIdempotencyStore,
  openConnection,
  ownLink,
} from '../../../support/internals/redis.js';
import { afterTest } from '../../../support/jest/after-test.js';
import { startRedis } from '../../../support/redis/redis-server.js';
import { freePort } from '../../../support/servers/free-port.js';
import { useServer } from '../../../support/servers/use-server.js';
import { ownStore } from '../support/fixture.js';

const dir = mkdtempSync(join(tmpdir(), 'idempotency-tls-'));
afterAll(() => rmSync(dir, { recursive: true }));
const [key, cert] = ['key.pem', 'cert.pem'].map((name) => join(dir, name)) as [string, string];
execFileSync(
  'openssl',
  [
    ...[
      'req',
      '-x509',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-keyout',
      key,
      '-out',
      cert,
      '-days',
      '2',
    ],
    ...['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1'],
  ],
  { stdio: 'ignore' },
);

/** A real server with a certificate that nothing trusts. */
async function startTls(clients: 'yes' | 'no') {
  const port = await freePort();
  const server = await startRedis({
    args: [
      ...['--tls-port', String(port), '--tls-cert-file', cert, '--tls-key-file', key],
      ...['--tls-ca-cert-file', cert, '--tls-auth-clients', clients],
    ],
  });
  return { ...server, tlsPort: port };
}

const open = useServer(() => startTls('no'));
const guarded = useServer(() => startTls('yes'));

async function warningOf(url: string, connection: RedisConnectionOptions = {}) {
  const [warning] = await ownStore(url, { connection }).open();
  return warning?.message;
}

describe('A connection whose TLS handshake is ended', () => {
  it.each(['by the close of the store', 'by a reconnect'])(
    '%s ends no process by an error',
    async (how) => {
      for (let i = 0; i < 5; i += 1) {
        const own = await openConnection({
          url: `rediss://127.0.0.1:${open.tlsPort}`,
          onConnectionError: () => undefined,
        });
        const store = new RedisIdempotencyStore({ connect: () => Promise.resolve(ownLink(own)) });
        const opened = store.open();
        const { client } = own;
        const socket = await socketOf(client);
        if (socket.connecting) await emitted(socket, 'connect');
        // Its certificate arrives afterwards, and is rejected; so does the server's alert.
        if (how === 'by a reconnect') client.disconnect(true);
        else await store.close();
        if (!socket.closed) await emitted(socket, 'close');
        await store.close();
        await opened;
      }
      // An error without a listener fails the test.
      await delay(50);
      expect(true).toBe(true);
    },
  );
});

async function socketOf(client: { readonly stream?: object }): Promise<Socket> {
  while (client.stream === undefined) await new Promise((next) => setImmediate(next));
  return client.stream as Socket;
}

/** Without a listener to errors, which `once` of Node would add. */
function emitted(socket: Socket, event: string): Promise<unknown> {
  return new Promise((resolve) => socket.once(event, resolve));
}

describe('The start says what to do', () => {
  it('where the port speaks TLS, and the URL does not', async () => {
    expect(await warningOf(`redis://127.0.0.1:${open.tlsPort}`)).toMatch(/rediss:\/\//);
  });

  it('where the certificate is not trusted', async () => {
    const message = await warningOf(`rediss://127.0.0.1:${open.tlsPort}`);
    expect(message).toMatch(/self-signed certificate.*tls: \{ ca \}/);
  });

  it('where the server requires a client certificate', async () => {
    const tls = { rejectUnauthorized: false };
    const message = await warningOf(`rediss://127.0.0.1:${guarded.tlsPort}`, { tls });
    expect(message).toMatch(/client certificate.*tls: \{ cert, key \}/);
  });

  it('where a proxy closes the connection without a reply', async () => {
    const proxy = createServer((socket) =>
      socket.on('error', () => undefined).once('data', () => socket.end()),
    );
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    afterTest(() => proxy.close());
    const { port } = proxy.address() as { port: number };
    expect(await warningOf(`redis://127.0.0.1:${port}`)).toMatch(
      /closed the connection before it replied.*twemproxy/,
    );
  });
});
