import { createHash } from 'node:crypto';
import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import {
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from '../../support/internals/core.js';
import { loadScripts } from '../../support/internals/redis.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { RedisNode } from '../../support/redis/redis-node.js';
import { ACQUIRED, startScriptedServer, startServerWithoutFlags } from './support/canned-server.js';
import {
  beginCommand,
  completeCommand,
  extendCommand,
  leaseOf,
  releaseCommand,
  TIMEOUT_MS,
} from '../../support/stores/commands.js';
import { during } from '../../support/waiting/during.js';
import { closeAfterTest, ownStore, userClient } from './support/fixture.js';
import { until } from '../../support/waiting/until.js';

async function setUp(...args: string[]) {
  const server = closeAfterTest(await startRedis({ args }));
  const client = userClient(server.url);
  // A begin that runs out of time should do so for the server's reply.
  await client.ping();
  return { server, client, store: new RedisIdempotencyStore({ client }) };
}

describe('While the server does not execute commands', () => {
  const noMaster = ['REPLICAOF', '127.0.0.1', '1'];
  const states = [
    {
      code: 'NOREPLICAS',
      ailing: [['CONFIG', 'SET', 'min-replicas-to-write', '1']],
      healing: ['CONFIG', 'SET', 'min-replicas-to-write', '0'],
    },
    { code: 'READONLY', ailing: [noMaster], healing: ['REPLICAOF', 'NO', 'ONE'] },
    {
      code: 'MASTERDOWN',
      ailing: [['CONFIG', 'SET', 'replica-serve-stale-data', 'no'], noMaster],
      healing: ['REPLICAOF', 'NO', 'ONE'],
    },
    {
      code: 'CLUSTERDOWN',
      args: ['--cluster-enabled', 'yes'],
      ailing: [],
      healing: ['CLUSTER', 'ADDSLOTSRANGE', '0', '16383'],
    },
  ];

  describe.each(states)('and returns $code', ({ code, args = [], ailing, healing }) => {
    async function setUpAiling() {
      const { store, client } = await setUp(...args);
      for (const [command, ...rest] of ailing) await client.call(command!, ...rest);
      return { store, client };
    }

    it('a begin that runs out of time is unavailable', async () => {
      const { store } = await setUpAiling();
      const attempt = store.begin(beginCommand({ timeoutMs: 1_000 }));
      await expect(attempt).rejects.toThrow(StoreUnavailableError);
      await expect(attempt).rejects.toThrow(code);
    });

    it('a begin is sent again until it is executed', async () => {
      const { store, client } = await setUpAiling();
      const attempt = store.begin(beginCommand({ timeoutMs: 10_000 }));
      await until(async () => (await client.info('errorstats')).includes(code));
      await client.call(healing[0]!, ...healing.slice(1));
      expect((await attempt).kind).toBe('acquired');
    });
  });

  it('and returns BUSY, a begin is sent again until the long script is over', async () => {
    const { server, store } = await setUp('--busy-reply-threshold', '20');
    const other = userClient(server.url);
    await other.ping();
    const longScript = other.eval('for i = 1, 6e7 do end return 1', 0);
    const withShortTimeout = store.begin(beginCommand({ timeoutMs: 150 }));
    const withLongTimeout = store.begin(beginCommand({ timeoutMs: 20_000 }));
    await expect(withShortTimeout).rejects.toThrow(StoreUnavailableError);
    await expect(withShortTimeout).rejects.toThrow('BUSY');
    expect((await withLongTimeout).kind).toBe('acquired');
    expect(await longScript).toBe(1);
  });

  it('and reports that the script was killed, a begin is sent again', async () => {
    const { server } = await setUp('--busy-reply-threshold', '20');
    const [client, other] = [userClient(server.url), userClient(server.url)];
    const shipped = loadScripts();
    const endless = "if redis.call('EXISTS', 'endless') == 1 then while true do end end";
    const text = `${endless}\n${shipped.begin.text}`;
    const begin = { text, sha1: createHash('sha1').update(text).digest('hex') };
    const store = new RedisIdempotencyStore({ client, scripts: { ...shipped, begin } });
    await other.set('endless', '');
    const attempt = store.begin(beginCommand({ timeoutMs: 20_000 }));
    let killed = 0;
    await until(async () => {
      await other.script('KILL').then(
        () => (killed += 1),
        () => undefined,
      );
      return killed > 0 && (await other.del('endless').catch(() => 0)) === 1;
    });
    expect((await attempt).kind).toBe('acquired');
  });

  it('and returns LOADING, a begin is sent again until the data is loaded', async () => {
    const server = closeAfterTest(await RedisNode.down());
    await server.start('--rdbcompression', 'no');
    const writer = userClient(server.url);
    const fields = Array.from({ length: 2_000 }, (_, i) => [`key:${i}`, 'x'.repeat(100)] as const);
    await writer.mset(...fields.flat());
    await writer.save();
    writer.disconnect();
    await server.kill();
    // 2,000 keys at half a millisecond each.
    const slowly = ['--key-load-delay', '500', '--loading-process-events-interval-bytes', '1024'];
    const starting = server.start(...slowly);

    const client = userClient(server.url, { enableReadyCheck: false });
    await until(() => client.status === 'ready');
    const store = new RedisIdempotencyStore({ client });
    const withShortTimeout = store.begin(beginCommand({ timeoutMs: 50 }));
    await expect(withShortTimeout).rejects.toThrow(StoreUnavailableError);
    await expect(withShortTimeout).rejects.toThrow('LOADING');
    expect((await store.begin(beginCommand({ timeoutMs: 10_000 }))).kind).toBe('acquired');
    await starting;
  });

  // Errors that a single real server does not produce, from a scripted server.
  it.each([
    '-TRYAGAIN Multiple keys request during rehashing of slot',
    '-ASK 3999 127.0.0.1:6381',
    '-UNKILLABLE Sorry the script already executed write commands',
    '-ERR max number of clients reached',
    "-ERR Error running script (call to f_abc): @user_script:5: @user_script: 5: -READONLY You can't write against a read only replica. ",
  ])('and returns %s, a begin is sent again', async (error) => {
    const server = closeAfterTest(await startScriptedServer([error, error, ACQUIRED]));
    const store = new RedisIdempotencyStore({ client: userClient(server.url, { protocol: 2 }) });
    const command = beginCommand({ timeoutMs: 2_000 });
    expect(await store.begin(command)).toMatchObject({ kind: 'acquired', fence: 7 });
  });

  it.each([
    "-ERR Error running script (call to f_abc): @user_script:5: @user_script: 5: -OOM command not allowed when used memory > 'maxmemory'.",
    '-MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk.',
  ])('and returns %s, a begin is unavailable at once', async (error) => {
    const server = closeAfterTest(await startScriptedServer([error, ACQUIRED]));
    const store = new RedisIdempotencyStore({ client: userClient(server.url, { protocol: 2 }) });
    await expect(store.begin(beginCommand())).rejects.toThrow(StoreUnavailableError);
  });

  it.each([
    '-PROXYERROR upstream went away',
    '-ERR upstream failure',
    '-ERR no upstream host',
    '-ERR Connection refused',
    '-ERR server error',
    '-upstream protocol error',
  ])('and returns an unknown error (%s), the outcome is unknown', async (error) => {
    const odd = Array.from({ length: 100 }, () => error);
    const server = closeAfterTest(await startScriptedServer(odd));
    const client = userClient(server.url, { protocol: 2 });
    // A begin that is never sent would be unavailable.
    await client.ping();
    const store = new RedisIdempotencyStore({ client });
    await expect(store.begin(beginCommand({ timeoutMs: 100 }))).rejects.toThrow(
      StoreOutcomeUnknownError,
    );
  });
});

describe('A server that compiles no script with flags', () => {
  it.each([
    [
      'although another one of its cluster does',
      '7.2.0',
      "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '#' ",
    ],
    ['but others', '7.0.0', '-ERR Unexpected flag in script shebang: allow-oom'],
    ['and says so by its version', '6.2.14', '-PROXYERROR a script with flags'],
  ])('%s, gets the script without them', async (_, version, error) => {
    const { url } = closeAfterTest(await startServerWithoutFlags(version, error));
    const client = userClient(url, { protocol: 2 });
    const waitReplicas = { count: 1, timeoutMs: 1_000 };
    for (const store of [
      new RedisIdempotencyStore({ client }),
      new RedisIdempotencyStore({ client, waitReplicas }),
    ]) {
      await store.open();
      const lease = leaseOf(beginCommand(), 1);
      expect(await store.complete(lease, completeCommand())).toEqual({ kind: 'ok' });
      expect(await store.extend(lease, extendCommand())).toEqual({ kind: 'ok' });
      await store.close();
    }
  });
});

describe('A server that can never execute the commands', () => {
  it.each([
    "-ERR unknown command 'EVALSHA', with args beginning with: ",
    "-ERR wrong number of arguments for 'evalsha' command",
    '-ERR syntax error',
    '-ERR DB index is out of range',
    "-ERR The user executing the script can't run this command or subcommand script",
    "-ERR ACL failure in script: User app has no permissions to run the 'time' command",
    '-ERR user_script:5: Script attempted to access nonexistent global variable',
  ])('returns %s, which is a configuration error', async (error) => {
    const server = closeAfterTest(await startScriptedServer([error]));
    const store = new RedisIdempotencyStore({ client: userClient(server.url, { protocol: 2 }) });
    await expect(store.begin(beginCommand())).rejects.toThrow(StoreConfigurationError);
  });
});

describe('When the connection leads to a replica', () => {
  it('the store reconnects its own connection to the new primary [P63]', async () => {
    const primary = closeAfterTest(await startRedis());
    const replica = closeAfterTest(
      await startRedis({ args: ['--replicaof', '127.0.0.1', String(primary.port)] }),
    );
    const admin = userClient(replica.url);
    const store = ownStore(replica.url);
    const attempt = store.begin(beginCommand({ timeoutMs: 10_000 }));
    const connections = async () =>
      Number(/total_connections_received:(\d+)/.exec(await admin.info('stats'))![1]);
    const before = await connections();
    await until(async () => (await connections()) > before + 1);
    await admin.replicaof('NO', 'ONE');
    expect((await attempt).kind).toBe('acquired');
  });
});

describe('A configuration that cannot work fails with a configuration error', () => {
  it('when the key holds another type', async () => {
    const { client, store } = await setUp();
    const command = beginCommand();
    await client.lpush(`idem:1:${command.recordKey}`, 'x');
    await expect(store.begin(command)).rejects.toThrow(StoreConfigurationError);
    expect(await client.lrange(`idem:1:${command.recordKey}`, 0, -1)).toEqual(['x']);
  });

  it.each([
    ['of another version', '1 p 1790000000000000 1790000010000\n'],
    ['of other software', 'hello'],
    ['that is empty', ''],
    ['that was cut off', '2p1790000000000000 t 1 0 f\n= 10000 3'],
    ['that was cut off once finished', '2c1790000000000000 t 1 0 f\n179'],
    ['of an unknown state', '2x5 t 1 0 f\n99999999999999\n'],
  ])('when the key holds a value %s, which stays unchanged', async (_what, value) => {
    const { client, store } = await setUp();
    const command = beginCommand();
    const key = `idem:1:${command.recordKey}`;
    await client.set(key, value);
    const lease = leaseOf(command, 0);
    const complete = completeCommand({ whenGone: 'restore' });
    for (const step of [
      () => store.begin(command),
      () => store.extend(lease, extendCommand()),
      () => store.complete(lease, complete),
      () => store.release(lease, releaseCommand()),
      () => store.inspect(command.recordKey, { timeoutMs: TIMEOUT_MS }),
    ]) {
      await expect(step()).rejects.toThrow(StoreConfigurationError);
    }
    expect(await client.get(key)).toBe(value);
    expect(await client.pttl(key)).toBe(-1);
  });

  it('when there is no password, on a connection of either kind', async () => {
    const server = closeAfterTest(await startRedis());
    await userClient(server.url).config('SET', 'requirepass', 'secret');
    const stores = [
      ownStore(server.url),
      new RedisIdempotencyStore({ client: userClient(server.url) }),
      ownStore(server.url.replace('redis://', 'redis://:wrong@')),
    ];
    for (const store of stores) {
      await expect(store.begin(beginCommand())).rejects.toThrow(StoreConfigurationError);
      await expect(store.open()).rejects.toThrow(StoreConfigurationError);
    }
    const rightOne = ownStore(server.url.replace('redis://', 'redis://:secret@'));
    expect((await rightOne.begin(beginCommand())).kind).toBe('acquired');
  });

  it('when the user may not run the commands of the scripts', async () => {
    const { server, client } = await setUp();
    await client.call('ACL', 'SETUSER', 'app', 'on', '>pw', '~idem:*', '+@all', '-set');
    const store = ownStore(server.url.replace('redis://', 'redis://app:pw@'));
    await expect(store.begin(beginCommand())).rejects.toThrow(StoreConfigurationError);
  });

  it('when the user may not touch the key prefix', async () => {
    const { server, client } = await setUp();
    await client.call('ACL', 'SETUSER', 'app', 'on', '>pw', '~other:*', '+@all');
    const store = ownStore(server.url.replace('redis://', 'redis://app:pw@'));
    await expect(store.begin(beginCommand())).rejects.toThrow(/NOPERM.*EVALSHA, EVAL, TIME/);
  });

  it('but a user with only the named commands works', async () => {
    const { server, client } = await setUp();
    const commands = [
      '+evalsha',
      '+eval',
      '+time',
      '+getrange',
      '+get',
      '+set',
      '+pexpireat',
      '+info',
    ];
    await client.call('ACL', 'SETUSER', 'app', 'on', '>pw', '~idem:*', '-@all', ...commands);
    const store = ownStore(server.url.replace('redis://', 'redis://app:pw@'));
    const begin = beginCommand();
    const reply = await store.begin(begin);
    const lease = leaseOf(begin, reply.kind === 'acquired' ? reply.fence : -1);
    expect(await store.extend(lease, extendCommand())).toEqual({ kind: 'ok' });
    expect(await store.complete(lease, completeCommand())).toEqual({ kind: 'ok' });
    // It has no channels either.
    const codes = (await store.open()).map(({ code }) => code);
    expect(codes).toEqual(['redis_not_durable', 'redis_no_push']);
  });
});

describe('An error', () => {
  it('never carries the token, the fingerprint or the body', async () => {
    const { client, store } = await setUp();
    const command = beginCommand();
    await client.lpush(`idem:1:${command.recordKey}`, 'x');
    const outcome = { header: 'private header', body: Buffer.from('private body') };
    const complete = completeCommand({ outcome });
    const error = await store.complete(leaseOf(command, 1), complete).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(StoreConfigurationError);
    expect(inspect(error, { depth: 10, showHidden: true })).not.toMatch(
      new RegExp(`private|${command.token}|${command.fingerprint}`),
    );
  });
});

describe('The text of an error', () => {
  it.each([
    "-ERR unknown command 'EVALSHA', with args beginning with: 'sha' '1' 'private key' 'private token' ",
    '-ERR unknown command `EVALSHA`, with args beginning with: `sha`, `1`, `private key`, `private body`, ',
    '-PROXYERROR upstream went away',
    "-OOM command not allowed when used memory > 'maxmemory'.",
  ])('never contains the sent values, even when the server returns %s', async (reply) => {
    const server = closeAfterTest(await startScriptedServer(Array(100).fill(reply)));
    const store = new RedisIdempotencyStore({ client: userClient(server.url, { protocol: 2 }) });
    const command = beginCommand();
    const outcome = { header: 'private header', body: Buffer.from('private body') };
    const complete = completeCommand({ outcome, timeoutMs: 100 });
    const error = await store.complete(leaseOf(command, 1), complete).catch((e: unknown) => e);
    expect(error).toMatchObject({ code: expect.stringMatching(/^idempotency_store_/) });
    expect(inspect(error, { depth: 10, showHidden: true })).not.toMatch(
      new RegExp(`private|${command.token}|${command.recordKey}|${command.fingerprint}`),
    );
  });
});

describe('Scripts that the server has forgotten', () => {
  it('are sent again as text', async () => {
    const { client, store } = await setUp();
    const begin = beginCommand();
    const reply = await store.begin(begin);
    await client.script('FLUSH');
    const lease = leaseOf(begin, reply.kind === 'acquired' ? reply.fence : -1);
    expect(await store.complete(lease, completeCommand())).toEqual({ kind: 'ok' });
  });

  it('have no effect, even if they are flushed repeatedly', async () => {
    const { server, client } = await setUp();
    const store = ownStore(server.url);
    const attempts = Array.from({ length: 300 }, async () => {
      const begin = beginCommand({ timeoutMs: 10_000 });
      const reply = await store.begin(begin);
      if (reply.kind !== 'acquired') return reply.kind;
      return (await store.complete(leaseOf(begin, reply.fence), completeCommand())).kind;
    });
    const kinds = await during(Promise.all(attempts), () => client.script('FLUSH'));
    expect(kinds).toEqual(Array(300).fill('ok'));
    expect(await client.info('errorstats')).toContain('NOSCRIPT');
  });
});
