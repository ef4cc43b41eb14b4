import { describe, expect, it, jest } from '@jest/globals';
import { RedisIdempotencyStore, redisStore } from 'nestjs-idempotency/redis';
import {
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from '../../../support/internals/core.js';
import { freePort } from '../../../support/servers/free-port.js';
import { startRedis } from '../../../support/redis/redis-server.js';
import { inStandingTime } from '../../../support/clocks/driven-time.js';
import { useRedis } from '../../../support/redis/use-redis.js';
import { RedisNode } from '../../../support/redis/redis-node.js';
import { startSilentServer } from '../support/canned-server.js';
import { beginCommand } from '../../../support/stores/commands.js';
import { closeAfterTest, ownStore, userClient } from '../support/fixture.js';
import { until } from '../../../support/waiting/until.js';

const server = useRedis();

function openSockets(): number {
  return process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;
}

describe('A connection that the store opens', () => {
  it('is not opened before it is needed', async () => {
    const admin = userClient(server.url);
    const store = ownStore(server.url);
    expect(await admin.client('LIST')).not.toContain('name=nestjs-idempotency');
    await store.begin(beginCommand());
    expect(await admin.client('LIST')).toContain('name=nestjs-idempotency');
  });

  it('can have another name', async () => {
    const admin = userClient(server.url);
    const store = ownStore(server.url, { connection: { connectionName: 'payments' } });
    await store.begin(beginCommand());
    expect(await admin.client('LIST')).toContain('name=payments');
  });

  it('is closed with the store, and commands are unavailable then', async () => {
    const admin = userClient(server.url);
    await admin.ping();
    const before = openSockets();
    const store = ownStore(server.url);
    await store.begin(beginCommand());
    expect(openSockets()).toBe(before + 1);
    await store.close();
    await until(() => openSockets() === before);
    expect(await admin.client('LIST')).not.toContain('name=nestjs-idempotency');
    await expect(store.begin(beginCommand())).rejects.toThrow(StoreUnavailableError);
    expect(openSockets()).toBe(before);
  });

  it('closes twice, and without being opened', async () => {
    const store = ownStore(server.url);
    await store.close();
    await store.close();
  });

  it('closes while no server listens, and does not reconnect', async () => {
    const store = ownStore(`redis://127.0.0.1:${await freePort()}`);
    await expect(store.begin(beginCommand({ timeoutMs: 100 }))).rejects.toThrow();
    const before = openSockets();
    await store.close();
    await until(() => openSockets() <= before);
  });

  it.each(['before', 'after'])('closes %s it gives up on a silent server', async (when) => {
    const silent = closeAfterTest(await startSilentServer());
    const before = openSockets();
    const store = ownStore(silent.url, { connection: { socketTimeout: 100 } });
    const timeoutMs = when === 'before' ? 50 : 250;
    await expect(store.begin(beginCommand({ timeoutMs }))).rejects.toThrow();
    await store.close();
    await until(() => openSockets() === before);
  });

  it('closes within a second while the server is paused', async () => {
    const paused = closeAfterTest(await startRedis());
    await inStandingTime(async ({ pass, flow }) => {
      const store = ownStore(paused.url);
      await flow(store.begin(beginCommand()));
      paused.kill('SIGSTOP');
      try {
        const closed = store.close();
        await pass(1_000);
        await closed;
      } finally {
        paused.kill('SIGCONT');
      }
    });
  });

  it('reports only the first failure of each outage', async () => {
    const redis = closeAfterTest(await RedisNode.down());
    const errors: Error[] = [];
    const store = ownStore(redis.url, { onConnectionError: (error) => errors.push(error) });
    for (const outage of [1, 2]) {
      await redis.start();
      await userClient(redis.url).ping();
      expect((await store.begin(beginCommand({ timeoutMs: 10_000 }))).kind).toBe('acquired');
      await redis.kill();
      await until(() => errors.length >= outage);
      // Enough time for several attempts to reconnect.
      await expect(store.begin(beginCommand({ timeoutMs: 300 }))).rejects.toThrow();
      expect(errors).toHaveLength(outage);
    }
    expect(errors[1]).toMatchObject({ code: 'ECONNREFUSED' });
  });

  it('emits a process warning without a listener for failures', async () => {
    const warn = jest.spyOn(process, 'emitWarning').mockReturnValue(undefined);
    try {
      const store = redisStore({ url: `redis://127.0.0.1:${await freePort()}` });
      await expect(store.begin(beginCommand({ timeoutMs: 200 }))).rejects.toThrow();
      await store.close();
      expect(warn.mock.calls).toEqual([
        [
          expect.stringContaining('ECONNREFUSED'),
          { type: 'IdempotencyWarning', code: 'IDEMPOTENCY_REDIS_CONNECTION' },
        ],
      ]);
    } finally {
      warn.mockRestore();
    }
  });
});

describe('A client of the application', () => {
  it('stays open and unchanged when the store closes', async () => {
    const client = userClient(server.url);
    await client.ping();
    const options = asPlain(client.options);
    const listeners = client.eventNames().map((name) => client.listenerCount(name));
    const store = new RedisIdempotencyStore({ client });
    await store.begin(beginCommand());
    await store.close();
    expect(await client.ping()).toBe('PONG');
    expect(asPlain(client.options)).toEqual(options);
    expect(client.eventNames().map((name) => client.listenerCount(name))).toEqual(listeners);
  });

  it('is accepted by redisStore as well', async () => {
    const client = userClient(server.url, { keyPrefix: 'app:' });
    const store = redisStore({ client, keyPrefix: 'pay' });
    const command = beginCommand();
    await store.begin(command);
    expect(await client.exists(`pay:1:${command.recordKey}`)).toBe(1);
    await store.close();
    expect(client.status).toBe('ready');
  });

  it('connects at the first command when it is lazy', async () => {
    const client = userClient(server.url, { lazyConnect: true, enableOfflineQueue: false });
    const store = new RedisIdempotencyStore({ client });
    expect((await store.begin(beginCommand())).kind).toBe('acquired');
  });

  it('can use auto-pipelining', async () => {
    const client = userClient(server.url, { enableAutoPipelining: true });
    const store = new RedisIdempotencyStore({ client });
    const begins = Array.from({ length: 50 }, () => store.begin(beginCommand()));
    const kinds = (await Promise.all(begins)).map(({ kind }) => kind);
    expect(kinds).toEqual(Array(50).fill('acquired'));
  });

  function asPlain(value: object): unknown {
    return JSON.parse(JSON.stringify(value));
  }

  it('keeps a transaction that was started on it, and the outcome of the begin in it is unknown', async () => {
    const client = userClient(server.url);
    const store = new RedisIdempotencyStore({ client });
    const replyMismatched = jest.fn();
    const onClose = jest.fn();
    await store.open({ replyMismatched, warned: () => undefined });
    client.on('close', onClose);
    await store.begin(beginCommand());
    await client.multi({ pipeline: false });
    await client.set('money', '1');
    const attempt = store.begin(beginCommand());
    await expect(attempt).rejects.toThrow(StoreOutcomeUnknownError);
    await expect(attempt).rejects.toThrow('Give the store its own connection.');
    // Its own SET, and the script once.
    expect(await client.exec()).toHaveLength(2);
    expect(await client.get('money')).toBe('1');
    expect(replyMismatched).not.toHaveBeenCalled();
    expect(onClose).not.toHaveBeenCalled();
    expect((await store.begin(beginCommand())).kind).toBe('acquired');
  });
});
