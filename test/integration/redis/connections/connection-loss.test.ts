import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import {
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from '../../../support/internals/core.js';
import { freePort } from '../../../support/servers/free-port.js';
import { RedisProxy } from '../../../support/redis/proxy/redis-proxy.js';
import { TcpRelay } from '../../../support/servers/tcp-relay.js';
import { startRedis } from '../../../support/redis/redis-server.js';
import { standStill } from '../../../support/clocks/stand-still.js';
import { inStandingTime } from '../../../support/clocks/driven-time.js';
import { useRedis } from '../../../support/redis/use-redis.js';
import { RedisNode } from '../../../support/redis/redis-node.js';
import { startScriptedServer, startSilentServer } from '../support/canned-server.js';
import { beginCommand, completeCommand, leaseOf } from '../../../support/stores/commands.js';
import { during } from '../../../support/waiting/during.js';
import { closeAfterTest, ownStore, userClient } from '../support/fixture.js';
import { until } from '../../../support/waiting/until.js';

const BUDGET_MS = 200;

const server = useRedis();

describe('Without a connection, a begin is unavailable within its timeout', () => {
  const inTime = () => beginCommand({ timeoutMs: BUDGET_MS });

  async function expectUnavailableInTime(url: string) {
    const own = () => ownStore(url);
    const users = () => new RedisIdempotencyStore({ client: userClient(url) });
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
    const store = new RedisIdempotencyStore({ client });
    await expect(store.begin(inTime())).rejects.toThrow(StoreUnavailableError);
    await redis.start();
    await until(() => client.status === 'ready');
    expect(await client.dbsize()).toBe(0);
  });

  it('at once when the client is closed', async () => {
    const client = userClient(server.url);
    await client.quit();
    const store = new RedisIdempotencyStore({ client });
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
      const store = new RedisIdempotencyStore({ client: userClient(paused.url) });
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
    const store = new RedisIdempotencyStore({ client });
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
    const users = new RedisIdempotencyStore({ client: userClient(redis.url) });
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
    const store = new RedisIdempotencyStore({ client: userClient(server.url) });
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
