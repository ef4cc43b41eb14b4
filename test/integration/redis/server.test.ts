import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { redisStore } from 'nestjs-idempotency/redis';
import { inStandingTime } from '../../support/clocks/driven-time.js';
import {
  IdempotencyOptionsError,
  type Lease,
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from '../../support/internals/core.js';
import { ioredisLink, loadScripts, RedisIdempotencyStore } from '../../support/internals/redis.js';
import { rejection } from '../../support/nest/calling-app.js';
import { projectRoot } from '../../support/project-root.js';
import { RedisNode } from '../../support/redis/redis-node.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { useRedisClient } from '../../support/redis/use-redis.js';
import { useServer } from '../../support/servers/use-server.js';
import {
  beginCommand,
  completeCommand,
  extendCommand,
  leaseOf,
  newRecordKey,
  newToken,
  releaseCommand,
  TIMEOUT_MS,
} from '../../support/stores/commands.js';
import { during } from '../../support/waiting/during.js';
import { until } from '../../support/waiting/until.js';
import { ACQUIRED, startScriptedServer, startServerWithoutFlags } from './support/canned-server.js';
import { closeAfterTest, ownStore, userClient } from './support/fixture.js';

const server = useServer(startRedis);

async function setUp(url = server.url) {
  const client = userClient(url);
  // A begin that runs out of time should do so for the server's reply.
  await client.ping();
  return { client, store: redisStore({ client }) };
}

/** The error of a begin whose last attempt got a reply: on a busy machine, that may be too late. */
async function withReply(begin: () => Promise<unknown>): Promise<Error> {
  for (;;) {
    const error = (await rejection(begin())) as Error;
    if (!error.message.includes('no reply in time')) return error;
  }
}

/** A store on a server that gives these replies. */
async function setUpScripted(...replies: readonly string[]) {
  const { url } = closeAfterTest(await startScriptedServer(replies));
  const client = userClient(url, { protocol: 2 });
  return { client, store: redisStore({ client }) };
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
    const node = useServer(() => startRedis({ args }));

    /** The first test leaves the server in that state. */
    async function setUpAiling() {
      const client = userClient(node.url);
      const commands = [...ailing, ['CONFIG', 'RESETSTAT']];
      for (const [command, ...rest] of commands) await client.call(command!, ...rest);
      return { store: redisStore({ client }), client };
    }

    it('a begin that runs out of time is unavailable', async () => {
      const { store } = await setUpAiling();
      const error = await withReply(() => store.begin(beginCommand({ timeoutMs: 1_000 })));
      expect(error).toBeInstanceOf(StoreUnavailableError);
      expect(error.message).toContain(code);
    });

    it('a begin is sent again until it is executed', async () => {
      const { store, client } = await setUpAiling();
      const attempt = store.begin(beginCommand({ timeoutMs: 10_000 }));
      await until(async () => (await client.info('errorstats')).includes(code));
      await client.call(healing[0]!, ...healing.slice(1));
      expect((await attempt).kind).toBe('acquired');
    });
  });

  const impatient = useServer(() => startRedis({ args: ['--busy-reply-threshold', '20'] }));

  it('and returns BUSY, a begin is sent again until the long script is over', async () => {
    const { store } = await setUp(impatient.url);
    const other = userClient(impatient.url);
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
    const [client, other] = [userClient(impatient.url), userClient(impatient.url)];
    const shipped = loadScripts();
    const endless = "if redis.call('EXISTS', 'endless') == 1 then while true do end end";
    const text = `${endless}\n${shipped.begin.text}`;
    const begin = { text, sha1: createHash('sha1').update(text).digest('hex') };
    const store = new RedisIdempotencyStore({
      link: () => ioredisLink(client),
      scripts: { ...shipped, begin },
    });
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
    const store = redisStore({ client });
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
    const { store } = await setUpScripted(error, error, ACQUIRED);
    const command = beginCommand({ timeoutMs: 2_000 });
    expect(await store.begin(command)).toMatchObject({ kind: 'acquired', fence: 7 });
  });

  it.each([
    "-ERR Error running script (call to f_abc): @user_script:5: @user_script: 5: -OOM command not allowed when used memory > 'maxmemory'.",
    '-MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk.',
  ])('and returns %s, a begin is unavailable at once', async (error) => {
    const { store } = await setUpScripted(error, ACQUIRED);
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
    const { client, store } = await setUpScripted(...Array<string>(100).fill(error));
    // A begin that is never sent would be unavailable.
    await client.ping();
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
    const waitReplicas = { count: 1, timeout: 1_000 };
    for (const store of [redisStore({ client }), redisStore({ client, waitReplicas })]) {
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
    const { store } = await setUpScripted(error);
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
      redisStore({ client: userClient(server.url) }),
      ownStore(server.url.replace('redis://', 'redis://:wrong@')),
    ];
    for (const store of stores) {
      await expect(store.begin(beginCommand())).rejects.toThrow(StoreConfigurationError);
      await expect(store.open()).rejects.toThrow(StoreConfigurationError);
    }
    const rightOne = ownStore(server.url.replace('redis://', 'redis://:secret@'));
    expect((await rightOne.begin(beginCommand())).kind).toBe('acquired');
  });

  /** A store of a user who has these rights alone. */
  async function storeWith(...rights: string[]): Promise<RedisIdempotencyStore> {
    const { client } = await setUp();
    await client.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>pw', ...rights);
    return ownStore(server.url.replace('redis://', 'redis://app:pw@'));
  }

  it('when the user may not run the commands of the scripts', async () => {
    const store = await storeWith('~idem:*', '+@all', '-set');
    await expect(store.begin(beginCommand())).rejects.toThrow(StoreConfigurationError);
  });

  it('when the user may not touch the key prefix', async () => {
    const store = await storeWith('~other:*', '+@all');
    await expect(store.begin(beginCommand())).rejects.toThrow(/NOPERM.*EVALSHA, EVAL, TIME/);
  });

  it('but a user with only the named commands works', async () => {
    const commands = ['evalsha', 'eval', 'time', 'getrange', 'get', 'set', 'pexpireat', 'info'];
    const store = await storeWith('~idem:*', '-@all', ...commands.map((name) => `+${name}`));
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
    const { store } = await setUpScripted(...Array<string>(100).fill(reply));
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
    const { client } = await setUp();
    await client.config('RESETSTAT');
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

let client: Redis;
let store: RedisIdempotencyStore;
let lease: Lease;

/** A running attempt on a server that ran out of memory. */
async function startAttempt(): Promise<void> {
  client = userClient(server.url);
  store = redisStore({ client });
  await client.config('SET', 'maxmemory', '0', 'maxmemory-policy', 'noeviction');
  const begin = beginCommand();
  const reply = await store.begin(begin);
  lease = leaseOf(begin, reply.kind === 'acquired' ? reply.fence : -1);
}

async function useUpMemory(): Promise<void> {
  await client.config('SET', 'maxmemory', '1');
  await expect(client.set('x', 'y')).rejects.toThrow('OOM');
}

describe.each([
  ['with script flags, whose server was checked', true],
  ['without script flags', false],
])('Without memory, %s', (_, isChecked) => {
  beforeEach(async () => {
    await startAttempt();
    if (isChecked) await store.open();
  });

  it('begin is rejected and nothing changes [P48]', async () => {
    await useUpMemory();
    const size = await client.dbsize();
    await expect(store.begin(beginCommand())).rejects.toThrow(StoreUnavailableError);
    expect(await client.dbsize()).toBe(size);
  });

  it('begin on a released record is rejected and the tombstone stays', async () => {
    await store.release(lease, releaseCommand());
    const key = `idem:1:${lease.recordKey}`;
    const tombstone = [await client.get(key), await client.pexpiretime(key)];
    await useUpMemory();
    await expect(store.begin(beginCommand({ recordKey: lease.recordKey }))).rejects.toThrow(
      StoreUnavailableError,
    );
    expect([await client.get(key), await client.pexpiretime(key)]).toEqual(tombstone);
  });

  it('a rejection returns at once, not after the timeout', async () => {
    await useUpMemory();
    await inStandingTime(() =>
      expect(store.begin(beginCommand({ timeoutMs: 5_000 }))).rejects.toThrow('maxmemory'),
    );
  });

  it('a running attempt extends its lease and completes [P48]', async () => {
    await useUpMemory();
    expect(await store.extend(lease, extendCommand())).toEqual({ kind: 'ok' });
    expect(await store.complete(lease, completeCommand())).toEqual({ kind: 'ok' });
    expect(await store.complete(lease, completeCommand())).toEqual({ kind: 'already' });
  });

  it('a running attempt completes by one write, or by a harmless one before it', async () => {
    await useUpMemory();
    await client.config('RESETSTAT');
    expect(await store.complete(lease, completeCommand())).toEqual({ kind: 'ok' });
    const writes = [...(await client.info('commandstats')).matchAll(/cmdstat_(set|pexpireat):/g)];
    expect(writes.map(([, name]) => name).sort()).toEqual(
      isChecked ? ['set'] : ['pexpireat', 'set'],
    );
  });

  it('a running attempt releases', async () => {
    await useUpMemory();
    expect(await store.release(lease, releaseCommand())).toEqual({ kind: 'ok' });
  });

  it('a duplicate still gets the replay [P48]', async () => {
    await store.complete(lease, completeCommand());
    await useUpMemory();
    const replay = await store.begin(beginCommand({ recordKey: lease.recordKey }));
    expect(replay.kind).toBe('completed');
  });

  it('an outcome whose record is missing is restored', async () => {
    await useUpMemory();
    const gone = { recordKey: newRecordKey(), token: newToken(), fence: 0 };
    const command = completeCommand({ whenGone: 'restore' });
    expect(await store.complete(gone, command)).toEqual({ kind: 'restored' });
    expect(await store.complete(gone, command)).toEqual({ kind: 'already' });
  });

  it('an outcome is accepted after another attempt released', async () => {
    await store.release(lease, releaseCommand());
    await useUpMemory();
    const other = { ...lease, token: newToken() };
    expect(await store.complete(other, completeCommand())).toEqual({ kind: 'ok_late' });
  });
});

describe('complete returned already', () => {
  beforeEach(startAttempt);

  it('after a write with the same expiry, so that WAIT has something to wait for', async () => {
    await store.complete(lease, completeCommand());
    const expiry = await client.pexpiretime(`idem:1:${lease.recordKey}`);
    const dirty = await changesSinceSave();
    expect(await store.complete(lease, completeCommand())).toEqual({ kind: 'already' });
    expect(await changesSinceSave()).toBe(dirty + 1);
    expect(await client.pexpiretime(`idem:1:${lease.recordKey}`)).toBe(expiry);
  });

  async function changesSinceSave(): Promise<number> {
    const [, count] = /rdb_changes_since_last_save:(\d+)/.exec(await client.info('persistence'))!;
    return Number(count);
  }
});

describe('The rights that the documentation names', () => {
  const page = readFileSync(join(projectRoot, 'docs/operations/redis.md'), 'utf8');
  const [, user = '', rules = ''] = /^ACL SETUSER (\w+) (.+)$/m.exec(page) ?? [];
  const documented = rules.split(' ');

  /** Sent by ioredis for its own purposes, which can do without. */
  const BY_THE_CLIENT = 'client|';
  const admin = useRedisClient(server);

  const without = (rule: string) => documented.filter((other) => other !== rule);

  /** @returns the URL of the user, who has these rules from now on. */
  async function userWith(given: readonly string[]): Promise<string> {
    await admin.call('ACL', 'SETUSER', user, 'reset', ...given);
    return `redis://${user}:secret@127.0.0.1:${server.port}/1`;
  }

  /** Lets a store do all that stores do, as a user with these rules; returns what the server denied. */
  async function deniedTo(given: readonly string[]): Promise<string[]> {
    await admin.flushall();
    await admin.script('FLUSH');
    const url = await userWith(given);
    await admin.call('ACL', 'LOG', 'RESET');
    await everything(url).catch(() => undefined);
    const log = (await admin.call('ACL', 'LOG', '100')) as (string | number)[][];
    const objects = log.map((entry) => String(entry[entry.indexOf('object') + 1]));
    return objects.filter((object) => !object.startsWith(BY_THE_CLIENT));
  }

  async function everything(url: string): Promise<void> {
    // ioredis would check by INFO, too, and warn where it may not.
    const connection = { enableReadyCheck: false };
    const store = ownStore(url, { connection });
    await store.open();
    const large = Buffer.alloc(65_536, 'outcome ');
    // The first large outcome finds its script missing at the server.
    for (const body of [Buffer.from('{}'), large, large]) {
      const begin = beginCommand();
      const reply = await store.begin(begin);
      if (!('fence' in reply)) throw new Error(`The begin returned ${reply.kind}.`);
      const lease = leaseOf(begin, reply.fence);
      const stop = await store.watch(begin.recordKey, () => undefined, { timeoutMs: TIMEOUT_MS });
      await store.extend(lease, extendCommand());
      const completion = completeCommand({ outcome: { header: '{}', body }, notify: true });
      await store.complete(lease, completion);
      // A resend finds the record completed.
      await store.complete(lease, completion);
      stop?.();
      await store.begin(beginCommand({ recordKey: begin.recordKey }));
      await store.inspect(begin.recordKey, { timeoutMs: TIMEOUT_MS });
      await store.release(lease, releaseCommand());
    }
    await store.abandoned({ overMs: 0, limit: 9, timeoutMs: TIMEOUT_MS });
    const replicated = ownStore(url, { connection, waitReplicas: { count: 1, timeout: 1 } });
    await replicated.open();
    await replicated.begin(beginCommand({ timeoutMs: 300 })).catch(() => undefined);
  }

  it('are all that a store uses', async () => {
    expect(documented).toContain('+evalsha');
    expect(await deniedTo(documented)).toEqual([]);
  });

  it.each(documented.filter((rule) => rule.startsWith('+')))(
    'are no more than it uses: %s',
    async (rule) => {
      const denied = await deniedTo(without(rule));
      expect(denied).toContain(rule.slice(1));
    },
  );

  it.each(['+evalsha', '+time', '+set'])(
    'are named in the error of a begin without one of them: %s',
    async (rule) => {
      const store = ownStore(await userWith(without(rule)));
      await expect(store.begin(beginCommand())).rejects.toThrow(
        'The user requires EVALSHA, EVAL, TIME',
      );
    },
  );
});

const scripts = Object.entries(loadScripts());

describe('the eight scripts', () => {
  it('are these, with flags where they write for an attempt that already runs', () => {
    const flags = scripts.map(([name, { flagged }]) => [name, flagged !== undefined]);
    expect(flags).toEqual([
      ['abandoned', true],
      ['amend', true],
      ['begin', false],
      // Without memory, there is no record to rename.
      ['complete-large', false],
      ['complete', true],
      ['extend', true],
      ['inspect', false],
      ['release', true],
    ]);
  });

  it.each(scripts)('hold what they include, and read record and time once: %s', (_, { text }) => {
    expect(text).not.toContain('-- include');
    for (const read of ["'TIME'", "'GETRANGE', KEYS[1], '0', '511'"]) {
      expect(text.split(`redis.call(${read})`)).toHaveLength(2);
    }
  });
});

describe('the scripts with flags', () => {
  const flagged = scripts.flatMap(([name, { text, flagged }]) =>
    flagged === undefined ? [] : [[name, text, flagged.text] as const],
  );

  it.each(flagged)(
    'are the same but for the flag and the PEXPIREAT before a SET: %s',
    (_, text, other) => {
      const [flag, ...lines] = other.split('\n');
      expect(flag).toBe('#!lua flags=allow-oom');
      const without = text.split('\n').filter((line) => !line.endsWith(' -- without allow-oom'));
      expect(lines).toEqual(without);
      expect(text.split('\n').length - lines.length).toBe(1);
      expect(text).toMatch(
        /redis\.call\('PEXPIREAT', KEYS\[1\], at\) -- without allow-oom\n *redis\.call\('SET', KEYS\[1\], .*, 'PXAT', at\)\n/,
      );
    },
  );
});

const url = 'redis://127.0.0.1:1';

function messageOf(options: object): string {
  try {
    redisStore(options);
  } catch (error) {
    expect(error).toBeInstanceOf(IdempotencyOptionsError);
    return (error as Error).message;
  }
  throw new Error('redisStore accepted the options');
}

describe('redisStore rejects', () => {
  it('options without a connection', () => {
    expect(messageOf({})).toMatch(/client, url, connection/);
  });

  it('an unknown option', () => {
    expect(messageOf({ url, keyprefix: 'x' })).toMatch(/"keyprefix".*keyPrefix/);
  });

  it.each(['', 'a b', 'a{b}', 'é', 'x'.repeat(65), 7, null])('the key prefix %j', (keyPrefix) => {
    const message = messageOf({ url, keyPrefix });
    expect(message).toMatch(/"keyPrefix" must be 1 to 64/);
    expect(message).toContain(`but it is ${JSON.stringify(keyPrefix)}`);
  });

  it.each(['http://host', 'localhost:6379', 'redis://', 7])('the URL %j', (bad) => {
    expect(messageOf({ url: bad })).toMatch(/"url" must begin with redis:\/\/ or rediss:\/\//);
  });

  it('a URL without showing its password', () => {
    expect(messageOf({ url: 'user:secret@host' })).not.toContain('secret');
    expect(messageOf({ url: 'http://user:secret@host' })).not.toContain('secret');
    expect(messageOf({ client: 'redis://user:secret@host' })).not.toContain('secret');
    expect(messageOf({ connection: 'redis://user:secret@host' })).not.toContain('secret');
  });

  it.each(['url', 'connection', 'onConnectionError'])('%s together with a client', (name) => {
    const client = userClient(url, { lazyConnect: true });
    expect(messageOf({ client, [name]: name })).toContain(name);
  });

  it.each([
    [{ push: 'yes' }, 'redisStore: The option "push" must be true or false, but it is "yes".'],
    [{ waitReplicas: 1 }, 'The options of waitReplicas must be an object, but the type is number.'],
    [{ waitReplicas: { replicas: 1 } }, '"replicas" is not an option of waitReplicas.'],
    [{ waitReplicas: { timeout: 1 } }, '"waitReplicas.count" must be an integer from 1 to 10'],
    [
      { waitReplicas: { count: 1, timeout: 60_001 } },
      `"waitReplicas.timeout" must be a duration from '1ms' to '1m'`,
    ],
    [{ host: 'x' }, '"host" is not an option of redisStore. It is an option of ioredis: '],
  ])('%j', (options, message) => {
    expect(messageOf({ url, ...options })).toContain(message);
  });

  it('a client of another library', () => {
    expect(messageOf({ client: { evalSha: () => undefined } })).toMatch(
      /client must be .* ioredis/,
    );
  });

  it.each([
    ['x', 'a string'],
    [null, 'null'],
    [['x'], 'an array'],
    [new URL(url), 'a URL'],
  ])('the connection %p, whose members would not be options', (connection, type) => {
    expect(messageOf({ connection })).toContain(
      `"connection" must be an object of options of ioredis, but it is ${type}`,
    );
  });

  it('a listener that is not a function', () => {
    expect(messageOf({ url, onConnectionError: true })).toMatch(
      /must be a function, but it is a boolean/,
    );
  });
});

describe('redisStore accepts', () => {
  it.each([
    { url },
    { url: 'rediss://user:pw@127.0.0.1:1/2' },
    { connection: { sentinels: [{ host: '127.0.0.1', port: 1 }], name: 'primary' } },
    { url, keyPrefix: 'a:b-c_d|~!z'.padEnd(64, 'x') },
    { url, keyPrefix: undefined },
  ])('%j', async (options) => {
    const store = redisStore(options);
    expect(store).toBeInstanceOf(RedisIdempotencyStore);
    await store.close();
  });
});
