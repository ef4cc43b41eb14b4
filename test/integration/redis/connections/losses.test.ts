import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, jest } from '@jest/globals';
import { redisStore } from 'nestjs-idempotency/redis';
import type { BeginReply } from 'nestjs-idempotency/store';
import { inStandingTime } from '../../../support/clocks/driven-time.js';
import { standStill } from '../../../support/clocks/stand-still.js';
import {
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from '../../../support/internals/core.js';
import { RedisProxy } from '../../../support/redis/proxy/redis-proxy.js';
import { RedisNode } from '../../../support/redis/redis-node.js';
import { startRedis } from '../../../support/redis/redis-server.js';
import { useRedis } from '../../../support/redis/use-redis.js';
import { freePort } from '../../../support/servers/free-port.js';
import { type Join, TcpRelay } from '../../../support/servers/tcp-relay.js';
import { beginCommand, completeCommand, leaseOf } from '../../../support/stores/commands.js';
import { during } from '../../../support/waiting/during.js';
import { until } from '../../../support/waiting/until.js';
import { startScriptedServer, startSilentServer } from '../support/canned-server.js';
import { closeAfterTest, ownStore, userClient } from '../support/fixture.js';

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
    const store = redisStore({ client });
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
    const store = redisStore({ client });
    expect((await store.begin(beginCommand())).kind).toBe('acquired');
  });

  it('can use auto-pipelining', async () => {
    const client = userClient(server.url, { enableAutoPipelining: true });
    const store = redisStore({ client });
    const begins = Array.from({ length: 50 }, () => store.begin(beginCommand()));
    const kinds = (await Promise.all(begins)).map(({ kind }) => kind);
    expect(kinds).toEqual(Array(50).fill('acquired'));
  });

  function asPlain(value: object): unknown {
    return JSON.parse(JSON.stringify(value));
  }

  it('keeps a transaction that was started on it, and the outcome of the begin in it is unknown', async () => {
    const client = userClient(server.url);
    const store = redisStore({ client });
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

const BUDGET_MS = 200;

describe('Without a connection, a begin is unavailable within its timeout', () => {
  const inTime = () => beginCommand({ timeoutMs: BUDGET_MS });

  async function expectUnavailableInTime(url: string) {
    const own = () => ownStore(url);
    const users = () => redisStore({ client: userClient(url) });
    for (const open of [own, users]) {
      await inStandingTime(async ({ pass }) => {
        let isOver = false;
        const begun = open()
          .begin(inTime())
          .finally(() => (isOver = true));
        const rejected = expect(begun).rejects.toThrow(StoreUnavailableError);
        await pass(BUDGET_MS / 2);
        expect(isOver).toBe(false);
        await pass(BUDGET_MS / 2);
        await rejected;
      });
    }
  }

  it('when no server listens', async () => {
    await expectUnavailableInTime(`redis://127.0.0.1:${await freePort()}`);
  });

  it('when a server accepts and never replies', async () => {
    const { url } = closeAfterTest(await startSilentServer());
    await expectUnavailableInTime(url);
  });

  it('when the host does not exist, with the reason', async () => {
    const errors: Error[] = [];
    const store = ownStore('redis://nowhere.invalid', {
      onConnectionError: (error) => errors.push(error),
    });
    await expect(store.begin(inTime())).rejects.toThrow(StoreUnavailableError);
    await until(() => errors.length > 0);
    await expect(store.begin(inTime())).rejects.toThrow(
      /there is no connection \(.*nowhere\.invalid/,
    );
  });

  it('and is not executed once the connection is established', async () => {
    const redis = closeAfterTest(await RedisNode.down());
    const client = userClient(redis.url);
    const store = redisStore({ client });
    await expect(store.begin(inTime())).rejects.toThrow(StoreUnavailableError);
    await redis.start();
    await until(() => client.status === 'ready');
    expect(await client.dbsize()).toBe(0);
  });

  it('at once when the client is closed', async () => {
    const client = userClient(server.url);
    await client.quit();
    const store = redisStore({ client });
    await inStandingTime(async ({ pass }) => {
      const begun = store.begin(beginCommand({ timeoutMs: 60_000 }));
      const rejected = expect(begun).rejects.toThrow(StoreUnavailableError);
      await pass(1_000);
      await rejected;
    });
  });
});

describe('When a server stops answering', () => {
  it('the outcome of an executed begin is unknown within its timeout', async () => {
    const paused = closeAfterTest(await startRedis());
    await inStandingTime(async ({ pass, flow }) => {
      const store = redisStore({ client: userClient(paused.url) });
      await flow(store.begin(beginCommand()));
      const command = beginCommand({ timeoutMs: BUDGET_MS });
      paused.kill('SIGSTOP');
      try {
        const unknown = expect(store.begin(command)).rejects.toThrow(StoreOutcomeUnknownError);
        await pass(BUDGET_MS);
        await unknown;
      } finally {
        paused.kill('SIGCONT');
      }
      const again = await store.begin({ ...command, timeoutMs: 2_000 });
      expect(again).toMatchObject({ kind: 'owned', attempt: 1 });
    });
  });

  it('the store replaces its own connection, and the command is answered over the new one', async () => {
    const proxy = closeAfterTest(await RedisProxy.start(server.port));
    const store = ownStore(proxy.url, { connection: { socketTimeout: 100 } });
    const first = beginCommand();
    await store.begin(first);
    proxy.silenceOpenConnections();
    const command = beginCommand({ timeoutMs: 5_000 });
    expect((await store.begin(command)).kind).toBe('owned');
    expect(proxy.connections).toBe(2);
  });

  it('a dead connection costs at most socketTimeout by default a second', async () => {
    const proxy = closeAfterTest(await RedisProxy.start(server.port));
    await inStandingTime(async ({ pass, flow }) => {
      const store = ownStore(proxy.url);
      await flow(store.begin(beginCommand()));
      proxy.silenceOpenConnections();
      const begun = store.begin(beginCommand({ timeoutMs: 5_000 }));
      await pass(1_000);
      expect(await flow(begun)).toMatchObject({ kind: 'owned' });
      expect(proxy.connections).toBe(2);
    });
  });
});

describe('When a connection breaks', () => {
  it('after a begin was executed, its resend returns owned', async () => {
    const proxy = closeAfterTest(await RedisProxy.start(server.port));
    const store = ownStore(proxy.url);
    await store.begin(beginCommand());
    proxy.aim('begin', 'lose the reply');
    const reply = await store.begin(beginCommand());
    expect(reply).toMatchObject({ kind: 'owned', attempt: 1, takeovers: 0 });
  });

  it('after a complete was executed, its resend returns already', async () => {
    const proxy = closeAfterTest(await RedisProxy.start(server.port));
    const store = ownStore(proxy.url);
    const begin = beginCommand();
    const reply = await store.begin(begin);
    const lease = leaseOf(begin, reply.kind === 'acquired' ? reply.fence : -1);
    await store.complete({ ...lease, fence: 1 }, completeCommand());
    proxy.aim('complete', 'lose the reply');
    expect(await store.complete(lease, completeCommand())).toEqual({ kind: 'already' });
  });

  it('and the resend fails as well, the outcome is unknown although the last attempt was not sent', async () => {
    const cut = closeAfterTest(await startScriptedServer([]));
    const client = userClient(cut.url, { protocol: 2, maxRetriesPerRequest: 0 });
    const store = redisStore({ client });
    await until(() => client.status === 'ready');
    const attempt = store.begin(beginCommand({ timeoutMs: BUDGET_MS }));
    await delay(20);
    await cut.stop();
    await expect(attempt).rejects.toThrow(StoreOutcomeUnknownError);
    await expect(attempt).rejects.toThrow(/there is no connection/);
  });

  it('repeatedly under load, every attempt is acquired once and completed', async () => {
    const store = ownStore(server.url);
    const admin = userClient(server.url);
    const attempts = Array.from({ length: 200 }, async (_, i) => {
      await delay(i * 2);
      const begin = beginCommand({ timeoutMs: 10_000 });
      const acquired = await store.begin(begin);
      if (acquired.kind !== 'acquired' && acquired.kind !== 'owned') return acquired.kind;
      expect(acquired.attempt).toBe(1);
      const lease = leaseOf(begin, acquired.fence);
      const completed = await store.complete(lease, completeCommand({ timeoutMs: 10_000 }));
      return completed.kind;
    });
    // Bounded: on a starved machine, no command might succeed between two of them.
    let kills = 0;
    const kinds = await during(Promise.all(attempts), async () => {
      if (kills < 40) await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      kills += 1;
      await delay(20);
    });
    expect(kills).toBeGreaterThan(0);
    for (const kind of kinds) expect(['ok', 'already']).toContain(kind);
  });

  it('because the server died, the next command succeeds once it is back', async () => {
    const redis = closeAfterTest(await RedisNode.down());
    await redis.start();
    const own = ownStore(redis.url);
    const users = redisStore({ client: userClient(redis.url) });
    for (const store of [own, users]) {
      expect((await store.begin(beginCommand({ timeoutMs: 5_000 }))).kind).toBe('acquired');
    }
    await redis.kill();
    for (const store of [own, users]) {
      await expect(store.begin(beginCommand({ timeoutMs: 50 }))).rejects.toThrow();
    }
    await redis.start();
    for (const store of [own, users]) {
      expect((await store.begin(beginCommand({ timeoutMs: 10_000 }))).kind).toBe('acquired');
    }
  });
});

describe('A blocked event loop', () => {
  it('does not turn a received reply into an unknown outcome', async () => {
    const store = redisStore({ client: userClient(server.url) });
    await store.begin(beginCommand());
    const attempt = store.begin(beginCommand({ timeoutMs: 50 }));
    setImmediate(() => standStill(150));
    expect((await attempt).kind).toBe('acquired');
  });
});

describe('An own connection on which ioredis has given up', () => {
  it('reconnects, because otherwise every operation would be rejected from then on', async () => {
    const redis = closeAfterTest(await RedisNode.down());
    await redis.start();
    // Without a retryStrategy, any loss ends the connection, as a Sentinel's message during the connect does.
    const store = ownStore(redis.url, { connection: { retryStrategy: () => null } });
    const isWell = () =>
      store.begin(beginCommand()).then(
        () => true,
        () => false,
      );
    await until(isWell);
    await redis.kill();
    expect(await isWell()).toBe(false);
    await redis.start();
    await until(isWell);
  });
});

describe('A process that was blocked for longer than socketTimeout', () => {
  it('keeps its connection, and receives the replies that arrived meanwhile', async () => {
    const store = ownStore(server.url, { connection: { socketTimeout: 100 } });
    const observer = userClient(server.url);
    const connections = async () =>
      /total_connections_received:(\d+)/.exec(await observer.info('stats'))?.[1];
    await store.begin(beginCommand());
    const before = await connections();
    for (let i = 0; i < 2; i += 1) {
      const attempt = store.begin(beginCommand({ timeoutMs: 200 }));
      // The command is written at the end of this iteration of the event loop.
      await new Promise(setImmediate);
      standStill(300);
      expect(await attempt).toMatchObject({ kind: 'acquired' });
    }
    expect(await connections()).toBe(before);
  });
});

/** The relay passes a reply in chunks of this size, with pauses. */
const SLOW_CHUNK = 4_096;
const SLOW_PAUSE_MS = 25;

describe('A slow connection', () => {
  it('that still receives a long reply is not stalled', async () => {
    const relay = closeAfterTest(await TcpRelay.start(server.port));
    relay.report(({ client, server: upstream, breakBoth }) => {
      client.pipe(upstream);
      upstream.on('close', breakBoth);
      void (async () => {
        for await (const data of upstream as AsyncIterable<Buffer>) {
          for (let at = 0; at < data.length && client.writable; at += SLOW_CHUNK) {
            client.write(data.subarray(at, at + SLOW_CHUNK));
            if (data.length > SLOW_CHUNK) await delay(SLOW_PAUSE_MS);
          }
        }
      })().catch(() => undefined);
    });
    const socketTimeout = 200;
    const store = ownStore(relay.through(server.url), { connection: { socketTimeout } });
    const begin = beginCommand();
    const acquired = await store.begin(begin);
    const lease = leaseOf(begin, (acquired as { fence: number }).fence);
    const outcome = { header: '{}', body: Buffer.alloc(SLOW_CHUNK * 30, 'x') };
    await store.complete(lease, completeCommand({ outcome, timeoutMs: 10_000 }));
    const replay = await store.begin(
      beginCommand({ recordKey: begin.recordKey, timeoutMs: 30_000 }),
    );
    expect(replay).toMatchObject({ kind: 'completed' });
    expect(relay.connections).toBe(1);
  });
});

describe('stalled connections', () => {
  const LIMIT_MS = 200;
  const connection = { socketTimeout: LIMIT_MS };

  const redis = useRedis();

  async function startProxy(): Promise<RedisProxy> {
    return closeAfterTest(await RedisProxy.start(redis.port));
  }

  async function startRelay(join: Join): Promise<TcpRelay> {
    const relay = closeAfterTest(await TcpRelay.start(redis.port));
    relay.report(join);
    return relay;
  }

  describe('A stalled connection', () => {
    it.each([{}, { maxRetriesPerRequest: null }, { commandTimeout: 50 }])(
      'is replaced as often as necessary, also while other commands are sent: %j',
      async (settings) => {
        const proxy = await startProxy();
        const store = ownStore(proxy.url, { connection: { ...connection, ...settings } });
        await store.begin(beginCommand());
        proxy.swallowEverything();
        const sending = (async () => {
          while (proxy.connections < 4) {
            await Promise.race([
              store.begin(beginCommand({ timeoutMs: 100 })).catch(() => undefined),
              delay(20),
            ]);
          }
        })();
        await until(() => proxy.connections >= 4);
        proxy.heal();
        await sending;
        const again = () =>
          store.begin(beginCommand({ timeoutMs: 2_000 })).then(({ kind }) => kind);
        await until(async () => (await again().catch(() => 'no reply')) === 'acquired');
      },
    );

    it('is also one that stops within a reply', async () => {
      let isCut = false;
      const relay = await startRelay(({ client, server: upstream }, number) => {
        client.pipe(upstream);
        upstream.on('data', (bytes: Buffer) => {
          client.write(isCut && number === 1 ? bytes.subarray(0, 3) : bytes);
          if (isCut && number === 1) upstream.pause();
        });
      });
      const store = ownStore(relay.through(redis.url), { connection });
      await store.begin(beginCommand());
      isCut = true;
      expect((await store.begin(beginCommand({ timeoutMs: 5_000 }))).kind).toBe('owned');
      expect(relay.connections).toBe(2);
    });
  });

  describe('A healthy connection', () => {
    it('stays when the process was blocked for longer than the limit, with unsent commands', async () => {
      const proxy = await startProxy();
      // The default limit of 1,000 ms: a busy machine may well move nothing for as long as the other tests allow.
      const store = ownStore(proxy.url);
      await store.begin(beginCommand());
      const replies = [1, 2, 3].map(() => store.begin(beginCommand({ timeoutMs: 10_000 })));
      standStill(2_000);
      for (const reply of replies) expect((await reply).kind).toBe('acquired');
      expect(proxy.connections).toBe(1);
    });

    it('stays while an upload makes progress, however long it takes', async () => {
      // Several times the kernel's buffers: progress of data in them is not visible.
      const body = Buffer.alloc(40_000_000, 'a');
      const stepBytes = 7_000_000;
      let taken = 0;
      let mayTake = Infinity;
      let last: Socket | undefined;
      const relay = await startRelay(({ client, server: upstream }) => {
        last = client;
        upstream.pipe(client);
        client.on('data', (bytes: Buffer) => {
          upstream.write(bytes);
          taken += bytes.length;
          if (taken >= mayTake) client.pause();
        });
      });
      await inStandingTime(async ({ pass, flow }) => {
        const store = ownStore(relay.through(redis.url), { connection });
        const begin = beginCommand({ timeoutMs: 5_000, leaseMs: 60_000 });
        const { fence } = (await flow(store.begin(begin))) as BeginReply & { fence: number };
        mayTake = taken;
        const completed = store.complete(
          leaseOf(begin, fence),
          completeCommand({ timeoutMs: 20_000, outcome: { header: '{}', body } }),
        );
        for (let step = 1; step <= 4; step += 1) {
          mayTake += stepBytes;
          last!.resume();
          await until(() => taken >= mayTake);
          await pass(0.75 * LIMIT_MS);
        }
        mayTake = Infinity;
        last!.resume();
        // The relay has read everything before the server has: no time passes until the reply.
        expect((await completed).kind).toBe('ok');
      });
      expect(relay.connections).toBe(1);
    });

    it('stays when it is idle', async () => {
      const proxy = await startProxy();
      await inStandingTime(async ({ pass, flow }) => {
        const store = ownStore(proxy.url, { connection });
        await flow(store.begin(beginCommand()));
        await pass(4 * LIMIT_MS);
        expect((await store.begin(beginCommand())).kind).toBe('acquired');
      });
      expect(proxy.connections).toBe(1);
    });
  });
});
