import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { loadScripts } from '../support/internals/redis.js';
import { until } from '../support/waiting/until.js';
import { RedisProxy, type RedisProxyOptions } from '../support/redis/proxy/redis-proxy.js';
import { RespReader, wordsOf } from '../support/redis/proxy/resp-reader.js';
import { startRedis } from '../support/redis/redis-server.js';
import { useRedisClient } from '../support/redis/use-redis.js';
import { useServer } from '../support/servers/use-server.js';

let proxies: RedisProxy[];
let clients: Redis[];

const redis = useServer(startRedis);
const admin = useRedisClient(redis);
beforeEach(async () => {
  await admin.flushall();
  proxies = [];
  clients = [];
});
afterEach(async () => {
  for (const client of clients) client.disconnect();
  for (const proxy of proxies) await proxy.stop();
});

/** A client that neither reconnects nor resends by itself. */
async function connected(options: RedisProxyOptions = {}) {
  const proxy = await RedisProxy.start(redis.port, options);
  const client = new Redis(proxy.url, { retryStrategy: null, disconnectTimeout: 100 });
  client.on('error', () => undefined);
  proxies.push(proxy);
  clients.push(client);
  await client.ping();
  return { proxy, client };
}

const count = async () => Number(await admin.get('count'));

/** Whether it settles while five others complete. */
async function isReplied(sent: Promise<unknown>): Promise<boolean> {
  const others = (async () => {
    for (let other = 0; other < 5; other += 1) await admin.ping();
    return false;
  })();
  return Promise.race([sent.then(() => true), others]);
}

/** Of a delay of 100 ms: Node's timers may fire more than a millisecond early. */
const EARLIEST_MS = 95;

describe('An aimed fault', () => {
  it.each([
    ['lose the request', 0],
    ['lose the reply', 1],
  ] as const)('%s breaks the connection', async (fault, executed) => {
    const { proxy, client } = await connected();
    const aim = proxy.aim('INCR', fault);
    expect(await client.get('count')).toBeNull();
    await expect(client.incr('count')).rejects.toThrow('Connection is closed');
    expect(aim.hits).toBe(1);
    await until(() => client.status === 'end');
    expect(await count()).toBe(executed);
  });

  it.each([
    ['swallow the request', 0],
    ['swallow the reply', 1],
  ] as const)('%s leaves the connection open and silent', async (fault, executed) => {
    const { proxy, client } = await connected();
    const aim = proxy.aim('INCR', fault);
    const sent = client.incr('count');
    sent.catch(() => undefined);
    await aim.hit;
    expect(await isReplied(sent)).toBe(false);
    expect(await count()).toBe(executed);
    const later = client.get('count');
    later.catch(() => undefined);
    expect(await isReplied(later)).toBe(false);
    expect(client.status).toBe('ready');
  });

  it('affects the nth command, and as many as planned', async () => {
    const { proxy, client } = await connected();
    const aim = proxy.aim('INCR', { requestDelayMs: 0 }, { nth: 2, times: 2 });
    for (const hits of [0, 1, 2, 2]) {
      await client.incr('count');
      expect(aim.hits).toBe(hits);
    }
  });

  it('finds its command in a pipeline: earlier replies are kept', async () => {
    const { proxy, client } = await connected();
    proxy.aim('INCR', 'lose the reply', { nth: 3 });
    const replies = Array.from({ length: 5 }, () => client.incr('count'));
    const settled = await Promise.allSettled(replies);
    expect(settled.map((reply) => ('value' in reply ? reply.value : 'lost'))).toEqual([
      1,
      2,
      'lost',
      'lost',
      'lost',
    ]);
    expect(await count()).toBe(5);
  });

  it.each([{ requestDelayMs: 100 }, { replyDelayMs: 100 }])(
    '%j delays what follows as well, in order',
    async (fault) => {
      const { proxy, client } = await connected();
      proxy.aim('INCR', fault);
      const order: string[] = [];
      const startedAt = performance.now();
      const incremented = client.incr('count').then(() => order.push('incr'));
      const executedAtOnce = await isReplied(client.get('count').then(() => order.push('get')));
      expect(executedAtOnce).toBe(false);
      expect(await count()).toBe('replyDelayMs' in fault ? 1 : 0);
      await incremented;
      expect(performance.now() - startedAt).toBeGreaterThanOrEqual(EARLIEST_MS);
      await until(() => order.length === 2);
      expect(order).toEqual(['incr', 'get']);
    },
  );

  it('captures a command, to be delivered later over another connection', async () => {
    const { proxy, client } = await connected();
    const captured = proxy.capture('MSETNX', 'break');
    await expect(client.msetnx('count', 7, 'binary', Buffer.of(0, 13, 10, 255))).rejects.toThrow();
    expect(await count()).toBe(0);
    const command = await captured;
    await command.deliver();
    expect(await count()).toBe(7);
    expect(await admin.getBuffer('binary')).toEqual(Buffer.of(0, 13, 10, 255));
  });

  it('recognizes a script by its name, and waits for the copy that the server knows', async () => {
    const { proxy, client } = await connected();
    const { inspect } = loadScripts();
    await admin.script('FLUSH');
    const aim = proxy.aim('inspect', 'lose the reply');
    await expect(client.evalsha(inspect.sha1, 1, 'a key')).rejects.toThrow('NOSCRIPT');
    expect(aim.hits).toBe(0);
    await expect(client.eval(inspect.text, 1, 'a key', 'nonce')).rejects.toThrow('closed');
    expect(aim.hits).toBe(1);
  });

  it("is not confused by the server's push messages", async () => {
    const { proxy, client } = await connected();
    const received: string[] = [];
    client.on('message', (_channel, message) => void received.push(message));
    await client.subscribe('news');
    await admin.publish('news', 'first');
    await until(() => received.length === 1);
    proxy.aim('PING', 'lose the reply');
    await expect(client.ping()).rejects.toThrow();
  });
});

describe('A fault of the whole connection', () => {
  it('ends with heal(), for new connections', async () => {
    const { proxy, client } = await connected({ canAim: false });
    proxy.hangUp();
    await until(() => client.status === 'end');
    await expect(client.connect()).rejects.toThrow();
    proxy.heal();
    await client.connect();
    expect(await client.incr('count')).toBe(1);
  });

  it('that swallows everything accepts connections, and answers nothing', async () => {
    const { proxy, client } = await connected();
    proxy.swallowEverything();
    const sent = client.incr('count');
    sent.catch(() => undefined);
    expect(await isReplied(sent)).toBe(false);
    expect(await count()).toBe(0);
    expect(client.status).toBe('ready');
  });

  it('that closes the server side leaves the client connected', async () => {
    const { proxy, client } = await connected();
    proxy.loseServerSide();
    const names = async () =>
      String(await admin.client('LIST'))
        .trim()
        .split('\n').length;
    await until(async () => (await names()) === 1);
    expect(client.status).toBe('ready');
  });

  it('loses the planned replies', async () => {
    const { proxy, client } = await connected({ canAim: false });
    const losses = [false, true];
    proxy.loseReplies(() => losses.shift() ?? false);
    expect(await client.incr('count')).toBe(1);
    await expect(client.incr('count')).rejects.toThrow();
    expect(await count()).toBe(2);
    expect(proxy.lostReplies).toBe(1);
  });

  it('delays both directions', async () => {
    const { proxy, client } = await connected();
    proxy.slowDown({ requestDelayMs: 50, replyDelayMs: 50 });
    const startedAt = performance.now();
    await client.ping();
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(EARLIEST_MS);
  });
});

describe('The reader of RESP', () => {
  const values = [
    '+OK\r\n',
    '-ERR no\r\n',
    ':7\r\n',
    '$-1\r\n',
    '$4\r\n\r\n\r\n\r\n',
    '*-1\r\n',
    '*0\r\n',
    '*2\r\n*1\r\n:1\r\n$0\r\n\r\n',
    '%1\r\n+a\r\n*2\r\n:1\r\n_\r\n',
    '>2\r\n+message\r\n=5\r\ntxt:x\r\n',
    '#t\r\n',
    `$20000\r\n${'x'.repeat(20_000)}\r\n`,
  ];
  const stream = Buffer.from(values.join(''));

  it.each([1, 2, 3, 7, 1_000, stream.length])('finds the same values in pieces of %i', (size) => {
    const reader = new RespReader();
    const found: string[] = [];
    for (let at = 0; at < stream.length; at += size) {
      found.push(...reader.read(stream.subarray(at, at + size)).map(String));
    }
    expect(found).toEqual(values);
  });

  it('decodes the words of a request', () => {
    const request = Buffer.from('*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n');
    expect(wordsOf(request).map(String)).toEqual(['SET', 'k', '\r\n']);
  });
});
