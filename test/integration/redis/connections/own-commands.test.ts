import { subscribe, tracingChannel, unsubscribe } from 'node:diagnostics_channel';
import { runInThisContext } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import type { OwnConnectionOptions, RedisConnectionOptions } from 'nestjs-idempotency/redis';
import type { Fingerprint } from '../../../support/internals/core.js';
import {
  RedisIdempotencyStore,
  openConnection,
  ownLink,
} from '../../../support/internals/redis.js';
import { afterTest } from '../../../support/jest/after-test.js';
import { startRedis } from '../../../support/redis/redis-server.js';
import { useRedis } from '../../../support/redis/use-redis.js';
import {
  beginCommand,
  completeCommand,
  extendCommand,
  leaseOf,
  releaseCommand,
  TIMEOUT_MS,
} from '../../../support/stores/commands.js';
import { TcpRelay } from '../../../support/servers/tcp-relay.js';
import { promisesOf } from '../../../support/waiting/promises-of.js';
import { until } from '../../../support/waiting/until.js';
import { ACQUIRED, startScriptedServer } from '../support/canned-server.js';
import { closeAfterTest, ownStore, userClient } from '../support/fixture.js';

const redis = useRedis();

/** The channel on which ioredis publishes its commands. */
const COMMANDS = 'tracing:ioredis:command:start';
const ignore = () => undefined;

interface Client {
  readonly stream: unknown;
  readonly commandQueue: { push: (item: unknown) => number };
  readonly status: string;
  sendCommand: Send;
  evalshaBuffer: (...args: unknown[]) => Promise<unknown>;
}

interface Command {
  readonly name: string;
  readonly args: readonly unknown[];
  readonly promise?: unknown;
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: unknown) => void;
  readonly toWritable: () => unknown;
}

interface Opened {
  readonly store: RedisIdempotencyStore;
  readonly client: Client;
  /** How many commands the store has sent with a method of the client. */
  readonly ordinary: () => number;
}

/** A store whose connection is ready, and its trial over. @param change - applied before it connects. */
async function open(
  change: (client: Client) => void = () => undefined,
  connection: RedisConnectionOptions = {},
  options: OwnConnectionOptions = {},
): Promise<Opened> {
  const own = await openConnection({ url: redis.url, connection, ...options });
  const client = own.client as unknown as Client;
  change(client);
  let ordinary = 0;
  const send = client.evalshaBuffer.bind(client);
  client.evalshaBuffer = (...args) => {
    ordinary += 1;
    return send(...args);
  };
  const store = new RedisIdempotencyStore({ connect: () => Promise.resolve(ownLink(own)) });
  afterTest(() => store.close());
  await store.open();
  return { store, client, ordinary: () => ordinary };
}

async function acquire(store: RedisIdempotencyStore, changes = {}) {
  const begin = beginCommand(changes);
  const reply = await store.begin(begin);
  if (reply.kind !== 'acquired') throw new Error(`The begin returned ${reply.kind}.`);
  return leaseOf(begin, reply.fence);
}

type Send = (command: Command) => unknown;

describe("On the store's own connection", () => {
  it('every step is sent without a command of ioredis', async () => {
    const { store, ordinary } = await open();
    const lease = await acquire(store, { origin: 'tests', note: 'note' });
    expect(await store.extend(lease, extendCommand())).toEqual({ kind: 'ok' });
    expect(await store.complete(lease, completeCommand())).toEqual({ kind: 'ok' });
    const other = await acquire(store);
    expect(await store.release(other, releaseCommand())).toEqual({ kind: 'ok' });
    const timeoutMs = TIMEOUT_MS;
    expect(await store.inspect(other.recordKey, { timeoutMs })).toMatchObject({ attempt: 1 });
    expect(ordinary()).toBe(0);
  });

  it.each([
    ['text beyond ASCII', Buffer.from('ü€😀'.repeat(100))],
    ['bytes that are not text', Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))],
    ['nothing', Buffer.alloc(0)],
    ['a long body', Buffer.alloc(5_000, '\r\n$3\r\n')],
  ])('an outcome of %s arrives as it was', async (_what, body) => {
    const { store, ordinary } = await open();
    const lease = await acquire(store, { fingerprint: 'ünï' as Fingerprint });
    const outcome = { header: '{"name":"ü€😀"}', body };
    // Another argument follows the body.
    const complete = completeCommand({ outcome, notify: true });
    expect(await store.complete(lease, complete)).toEqual({ kind: 'ok' });
    const record = await store.inspect(lease.recordKey, { timeoutMs: TIMEOUT_MS });
    expect(record).toMatchObject({ state: 'completed', fingerprint: 'ünï', outcome });
    expect(ordinary()).toBe(0);
  });

  it('keys have the prefix of the client', async () => {
    const { store, ordinary } = await open(undefined, { keyPrefix: 'app:' });
    const { recordKey } = await acquire(store);
    expect(await userClient(redis.url).exists(`app:idem:1:${recordKey}`)).toBe(1);
    expect(ordinary()).toBe(0);
  });

  it('a script that the server has forgotten is sent as text', async () => {
    const { store, ordinary } = await open();
    const lease = await acquire(store);
    await userClient(redis.url).script('FLUSH');
    expect(await store.complete(lease, completeCommand())).toEqual({ kind: 'ok' });
    expect(ordinary()).toBe(0);
  });

  it('a server without memory rejects a begin, and executes a complete', async () => {
    const { url } = closeAfterTest(await startRedis());
    const { store, ordinary } = await open(undefined, {}, { url });
    const lease = await acquire(store);
    await userClient(url).config('SET', 'maxmemory', '1');
    await expect(store.begin(beginCommand())).rejects.toMatchObject({
      code: 'idempotency_store_unavailable',
      message: expect.stringContaining('OOM'),
    });
    expect(await store.complete(lease, completeCommand())).toEqual({ kind: 'ok' });
    expect(ordinary()).toBe(0);
  });

  it('the first request of a key sends two commands, a replay, a conflict and a mismatch one each', async () => {
    const { store, ordinary } = await open();
    // The server gets the scripts.
    await store.complete(await acquire(store), completeCommand());
    const observer = userClient(redis.url);
    const executed = async () => {
      const stats = (await observer.info('commandstats')).matchAll(/_eval(?:sha)?:calls=(\d+)/g);
      return [...stats].reduce((sum, [, calls]) => sum + Number(calls), 0);
    };
    const counts: unknown[] = [];
    const count = async <Result>(work: () => Promise<Result>): Promise<Result> => {
      const before = await executed();
      const result = await work();
      counts.push((await executed()) - before);
      return result;
    };
    const lease = await count(() => acquire(store));
    const { recordKey } = lease;
    const conflict = await count(() => store.begin(beginCommand({ recordKey })));
    expect(conflict.kind).toBe('in_progress');
    const completed = await count(() => store.complete(lease, completeCommand()));
    expect(completed.kind).toBe('ok');
    const replay = await count(() => store.begin(beginCommand({ recordKey })));
    expect(replay.kind).toBe('completed');
    const other = beginCommand({ recordKey, fingerprint: 'other' as Fingerprint });
    expect((await count(() => store.begin(other))).kind).toBe('mismatch');
    expect(counts).toEqual([1, 1, 1, 1, 1]);
    expect(ordinary()).toBe(0);
  });

  it('commands that are pending when the store closes get their replies', async () => {
    const { store } = await open();
    await acquire(store);
    const begun = Array.from({ length: 20 }, () => acquire(store));
    await store.close();
    expect(await Promise.all(begun)).toHaveLength(20);
  });

  it('a command creates a single promise', async () => {
    const { store } = await open();
    await acquire(store);
    const command = beginCommand();
    const single = await promisesOf(() => new Promise((resolve) => setTimeout(resolve, 1)));
    expect(await promisesOf(() => store.begin(command))).toBe(single);
  });

  it('it continues on the next connection, without another trial', async () => {
    const { store, client, ordinary } = await open();
    const observer = userClient(redis.url);
    const trials = async () =>
      /cmdstat_eval:calls=\d+/.exec(await observer.info('commandstats'))?.[0];
    await acquire(store);
    const tried = await trials();
    await observer.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await until(() => client.status !== 'ready');
    await acquire(store, { timeoutMs: 10_000 });
    const before = ordinary();
    await acquire(store);
    expect(ordinary()).toBe(before);
    expect(await trials()).toBe(tried);
  });
});

/** Replaces what the client does with commands that ioredis did not create, in the very function that receives them. */
function receives(ours: (command: Command) => unknown) {
  return (client: Client) => {
    const original: Send = client.sendCommand.bind(client);
    client.sendCommand = (command) => {
      if (Object.hasOwn(command, 'promise')) return original(command);
      command.toWritable();
      return ours(command);
    };
  };
}

/** Replies like a server that has the text of a script, and not its SHA-1. */
const repliesWith = (nonce: (command: Command) => unknown) =>
  receives((command) => {
    const isKnown = command.name === 'eval';
    const error = Object.assign(new Error('NOSCRIPT'), { name: 'ReplyError' });
    queueMicrotask(() => {
      if (isKnown) command.resolve(nonce(command));
      else command.reject(error);
    });
  });

/** Ways to see each command, while there may be nothing to record. */
const INSTRUMENTATIONS: Readonly<Record<string, (client: Client) => void>> = {
  'a function that calls the method': (client) => {
    const original = client.sendCommand;
    client.sendCommand = function (this: Client, command: Command) {
      return original.call(this, command);
    };
  },
  'a method of the same name and form': (client) => {
    const original: Send = client.sendCommand.bind(client);
    const wrapper = {
      sendCommand(command: Command) {
        return original(command);
      },
    };
    client.sendCommand = Reflect.get(wrapper, 'sendCommand');
  },
  'a subclass': (client) => {
    const parent = Object.getPrototypeOf(client) as Client;
    const child = {
      sendCommand(this: Client, command: Command): unknown {
        return parent.sendCommand.call(this, command);
      },
    };
    Object.setPrototypeOf(client, Object.setPrototypeOf(child, parent) as object);
  },
  'a Proxy of the method': (client) => {
    client.sendCommand = new Proxy(client.sendCommand, {
      apply: (target, self, args: [Command]) => Reflect.apply(target, self, args),
    });
  },
  'a function that calls what ends a command without it': (client) => {
    const original: Send = client.sendCommand.bind(client);
    client.sendCommand = (command) => {
      const returned = original(command);
      const { resolve, reject } = command;
      Object.assign(command, {
        resolve: (reply: unknown) => {
          resolve(reply);
        },
        reject: (error: unknown) => {
          reject(error);
        },
      });
      return returned;
    };
  },
  'an asynchronous function': (client) => {
    const original: Send = client.sendCommand.bind(client);
    client.sendCommand = async (command) => await original(command);
  },
  'source that is rewritten to run within a tracing channel': (client) => {
    rewriteSource(client, (body) => `const run = () => {${body}}; return trace(run);`);
  },
  'source that is rewritten to learn when a command ends': (client) => {
    rewriteSource(client, (body) => `command.promise?.then(Object, Object); ${body}`);
  },
  'source that is rewritten to replace what ends a command': (client) => {
    rewriteSource(
      client,
      (body) =>
        `const end = command.resolve; command.resolve = (r) => end.call(command, r); ${body}`,
    );
  },
};

/** As a hook of the loader changes the method before it is compiled; here with the part of it that own commands need. */
function rewriteSource(client: Client, rewrite: (body: string) => string): void {
  const body = `
    if (Object.hasOwn(command, 'promise')) return send.call(this, command, stream);
    this.stream.write(command.toWritable(this.stream));
    this.commandQueue.push({ command, stream, select: this.condition.select });
    return command.promise;`;
  const source = `(send, trace) => ({ sendCommand(command, stream) { ${rewrite(body)} } })`;
  const make = runInThisContext(source) as (send: Send, trace: typeof traced) => Client;
  client.sendCommand = make(client.sendCommand, traced).sendCommand;
}

/** Without a subscriber, while the trial is made. */
const CHANNEL = tracingChannel('test:instrumentation');
const traced = (run: () => unknown): unknown =>
  CHANNEL.hasSubscribers ? CHANNEL.traceSync(run) : run();

describe('A trial that loses its connection', () => {
  /** Breaks the connection at each of the first `losses` trials. */
  async function lossy(losses: number) {
    let trials = 0;
    const relay = closeAfterTest(await TcpRelay.start(redis.port));
    relay.report(({ client, server, breakBoth }) => {
      server.pipe(client);
      client.on('data', (bytes: Buffer) => {
        if (bytes.includes('return ARGV[1]')) trials += 1;
        if (bytes.includes('return ARGV[1]') && trials <= losses) breakBoth();
        else server.write(bytes);
      });
    });
    const onConnectionError = () => undefined;
    const url = relay.through(redis.url);
    return { trials: () => trials, opened: await open(undefined, {}, { url, onConnectionError }) };
  }

  it('is repeated on the next one', async () => {
    const { trials, opened } = await lossy(1);
    await acquire(opened.store, { timeoutMs: 10_000 });
    const before = opened.ordinary();
    await acquire(opened.store);
    expect(opened.ordinary()).toBe(before);
    expect(trials()).toBe(2);
  });

  it('is given up after a few of them', async () => {
    const { trials, opened } = await lossy(Infinity);
    await acquire(opened.store, { timeoutMs: 10_000 });
    const before = opened.ordinary();
    await acquire(opened.store);
    expect(opened.ordinary()).toBe(before + 1);
    expect(trials()).toBe(3);
  });
});

describe('A reply', () => {
  it('that arrives after sendCommand has thrown is ignored, and no further command is sent so', async () => {
    const { store, client, ordinary } = await open();
    await acquire(store);
    const { stream, commandQueue } = client;
    const push = commandQueue.push.bind(commandQueue);
    let hasThrown = false;
    // The last that happens when a command is sent.
    commandQueue.push = (item) => {
      const length = push(item);
      if (hasThrown) return length;
      hasThrown = true;
      throw new Error('sent all the same');
    };
    // Sent again, as its outcome is unknown.
    expect(await store.begin(beginCommand())).toMatchObject({ kind: 'owned' });
    await acquire(store);
    expect(client.stream).toBe(stream);
    expect(ordinary()).toBe(2);
  });

  it('to a command of ioredis does not confirm the error reply that follows it', async () => {
    const oom = "-OOM command not allowed when used memory > 'maxmemory'.";
    const replies = [`${ACQUIRED}\r\n${oom}`, undefined, undefined];
    const server = closeAfterTest(await startScriptedServer(replies));
    const store = ownStore(server.url, { connection: { protocol: 2 } });
    await store.open();
    subscribe(COMMANDS, ignore);
    const first = store.begin(beginCommand());
    unsubscribe(COMMANDS, ignore);
    const others = [1, 2].map(() => store.begin(beginCommand({ timeoutMs: 200 })));
    expect(await Promise.allSettled([first, ...others])).toEqual([
      { status: 'fulfilled', value: expect.objectContaining({ kind: 'acquired' }) },
      ...Array(2).fill({
        status: 'rejected',
        reason: expect.objectContaining({ code: 'idempotency_store_outcome_unknown' }),
      }),
    ]);
  });
});

describe('Every step is sent with a method of the client', () => {
  async function expectOrdinary({ store, ordinary }: Opened) {
    const lease = await acquire(store);
    expect(await store.complete(lease, completeCommand())).toEqual({ kind: 'ok' });
    expect(ordinary()).toBe(2);
  }

  it.each([
    [
      'throws',
      receives(() => {
        throw new TypeError('command.setOptions is not a function');
      }),
    ],
    ['sends nothing', receives(() => undefined)],
    ['resolves with something else', repliesWith(() => Buffer.from('OK'))],
    [
      'resolves with an error',
      receives((command) => {
        command.resolve(command.name === 'eval' ? command.args[2] : new Error('NOSCRIPT'));
      }),
    ],
  ])('if sendCommand of the client %s', async (_what, change) => {
    await expectOrdinary(await open(change));
  });

  it.each(Object.entries(INSTRUMENTATIONS))(
    'if %s instruments sendCommand',
    async (_what, change) => {
      await expectOrdinary(await open(change));
    },
  );

  it.each<[string, (returned: unknown, command: Command) => unknown]>([
    ['the promise that sendCommand returns', (returned) => returned],
    ['the promise of the command', (_returned, command) => command.promise],
  ])('of which an instrumentation sees the end, those of the trial too, by %s', async (_by, of) => {
    const pending = new Set<Command>();
    let ended = 0;
    const opened = await open((client) => {
      const original: Send = client.sendCommand.bind(client);
      client.sendCommand = (command) => {
        const returned = original(command);
        pending.add(command);
        const onEnd = () => {
          ended += 1;
          pending.delete(command);
        };
        Promise.resolve(of(returned, command) ?? new Promise(ignore)).then(onEnd, onEnd);
        return returned;
      };
    });
    await expectOrdinary(opened);
    expect([...pending].map(({ name }) => name)).toEqual([]);
    expect(ended).toBeGreaterThan(2);
  });

  it.each([{ commandTimeout: TIMEOUT_MS }, { keyPrefix: Buffer.from('app:') }])(
    'with the option %j of the client',
    async (connection) => {
      await expectOrdinary(await open(undefined, connection));
    },
  );

  it('but not if the client has another sendCommand that nothing else takes part in', async () => {
    const opened = await open((client) => {
      rewriteSource(client, (body) => body);
    });
    await acquire(opened.store);
    expect(opened.ordinary()).toBe(0);
  });

  it('from the moment at which the client is instrumented', async () => {
    const opened = await open();
    await acquire(opened.store);
    expect(opened.ordinary()).toBe(0);
    INSTRUMENTATIONS['a function that calls the method']!(opened.client);
    await expectOrdinary(opened);
  });

  it('while a subscriber receives the commands of ioredis', async () => {
    const opened = await open();
    const seen: unknown[] = [];
    const onCommand = (context: unknown) => seen.push(Reflect.get(context as object, 'command'));
    subscribe(COMMANDS, onCommand);
    try {
      await expectOrdinary(opened);
      await userClient(redis.url).ping();
    } finally {
      unsubscribe(COMMANDS, onCommand);
    }
    // ioredis publishes its commands since 5.10.
    const published = seen.includes('ping') ? 2 : 0;
    expect(seen.filter((command) => command === 'evalsha')).toHaveLength(published);
    await acquire(opened.store);
    expect(opened.ordinary()).toBe(2);
  });
});
