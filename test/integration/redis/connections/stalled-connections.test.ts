import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import type { BeginReply } from 'nestjs-idempotency/store';
import { RedisProxy } from '../../../support/redis/proxy/redis-proxy.js';
import { standStill } from '../../../support/clocks/stand-still.js';
import { inStandingTime } from '../../../support/clocks/driven-time.js';
import { TcpRelay, type Join } from '../../../support/servers/tcp-relay.js';
import { useRedis } from '../../../support/redis/use-redis.js';
import { beginCommand, completeCommand, leaseOf } from '../../../support/stores/commands.js';
import { closeAfterTest, ownStore } from '../support/fixture.js';
import { until } from '../../../support/waiting/until.js';

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
      const again = () => store.begin(beginCommand({ timeoutMs: 2_000 })).then(({ kind }) => kind);
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
