import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import {
  NotSentError,
  type LinkEvent,
  type Redirection,
  type RedisLink,
  type ReplyOrder,
  type ReplyReceiver,
} from '../../../support/internals/redis.js';
import { RedisProxy } from '../../../support/redis/proxy/redis-proxy.js';
import type { RedisCluster } from '../../../support/redis/redis-cluster.js';
import { START_HOOK_MS } from '../../../support/servers/start-server.js';
import { until } from '../../../support/waiting/until.js';

export interface LinkUnderTest {
  readonly name: string;
  readonly open: () => Promise<RedisLink>;
  /** Its servers. */
  readonly servers: () => readonly Server[];
  /** The same link through the server's stand-in at this port; omitted if it reaches several servers. */
  readonly openAt?: (port: number) => Promise<RedisLink>;
  /** Begins to move a slot of the cluster, with this key's slot; ends it. */
  readonly moveSlot?: (key: string) => Promise<() => Promise<unknown>>;
  /** It is ready while one of its connections is replaced. */
  readonly isCluster?: boolean;
  /** It cannot ask servers one by one. */
  readonly isBlind?: boolean;
  /** Its client hides its connections, and opens none for subscriptions or for WAIT. */
  readonly isHidden?: boolean;
}

interface Server {
  readonly port: number;
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
}

interface End {
  readonly reply?: unknown;
  readonly error?: unknown;
  readonly order?: ReplyOrder | undefined;
  readonly unreplicated?: unknown;
}

type Send = (receiver: ReplyReceiver) => void;

/** Sends once. */
function sent(send: Send): Promise<End> {
  return new Promise((resolve) => {
    send({
      isOwn: () => true,
      onReply: (reply, order, unreplicated) => resolve({ reply, order, unreplicated }),
      onError: (error, order) => resolve({ error, order }),
    });
  });
}

/** Sends as soon as the link can: an idle one connects. */
async function asked(link: RedisLink, send: Send): Promise<End> {
  let end: End = {};
  await until(async () => {
    if (link.unavailable !== undefined) return false;
    end = await sent(send).catch((error: unknown) => ({ error }));
    const { kind, isReply } = link.failureOf(end.error);
    return end.error === undefined || (isReply ? kind !== 'redirected' : kind !== 'not_executed');
  });
  return end;
}

const ECHO = 'return ARGV[1]';
const ECHO_SHA1 = '098e0f0d1448c0a81dafe820f66d460eb09263da';
const COUNT = "return redis.call('INCR', KEYS[1])";
/** Sends at once. */
const CROWD = 64;
const EVERY_BYTE = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

let keys = 0;
const newKey = () => `link:${process.pid}:${(keys += 1)}`;

/** What the store relies on, of any link. */
export function describeLink({
  name,
  open,
  servers,
  openAt,
  moveSlot,
  isCluster = false,
  isHidden = false,
  isBlind = isHidden,
}: LinkUnderTest): void {
  describe(`The link ${name}`, () => {
    let link: RedisLink;
    const events: LinkEvent[] = [];
    const atAll = (command: string, ...args: string[]) =>
      Promise.all(servers().map((server) => server.call(command, ...args)));
    const evaluated = (text: string, key: string, ...args: (string | Buffer)[]) =>
      asked(link, (receiver) => link.eval(text, [key], args, receiver));

    beforeAll(async () => {
      link = await open();
      link.onState((event) => events.push(event));
      await until(() => link.unavailable === undefined);
    }, START_HOOK_MS);
    afterAll(() => link.close());

    it('gives each command its own reply, in the order of sending', async () => {
      const key = newKey();
      await evaluated(ECHO, key, '');
      const numbers = Array.from({ length: 50 }, (_, i) => String(i));
      const seen: string[] = [];
      const ends = numbers.map(async (number) => {
        const { reply } = await sent((receiver) => link.eval(ECHO, [key], [number], receiver));
        seen.push(String(reply));
        return String(reply);
      });
      expect(await Promise.all(ends)).toEqual(numbers);
      expect(seen).toEqual(numbers);
    });

    it('takes the arguments as they are when they are given', async () => {
      const key = newKey();
      await evaluated(ECHO, key, '');
      const args = ['before'];
      const end = sent((receiver) => {
        link.eval(ECHO, [key], args, receiver);
        args[0] = 'after';
      });
      expect(String((await end).reply)).toBe('before');
    });

    it('moves bytes as they are, both ways', async () => {
      expect((await evaluated(ECHO, newKey(), EVERY_BYTE)).reply).toEqual(EVERY_BYTE);
      const key = newKey();
      const value = [EVERY_BYTE, Buffer.alloc(0), Buffer.from('\r\n'), EVERY_BYTE];
      await evaluated(ECHO, key, '');
      link.set(key, value, 60_000);
      const { reply } = await asked(link, (receiver) => link.get(key, receiver));
      expect(reply).toEqual(Buffer.concat(value));
    });

    it('sends what names the key of a large value after it, also many at once', async () => {
      const key = newKey();
      await evaluated(ECHO, key, '');
      const value = Buffer.alloc(70_000);
      const lengths = Array.from({ length: CROWD }, async (_, i) => {
        const keys = [`{${key}}`, `{${key}}:${i}`];
        const { reply } = await sent((receiver) => {
          link.set(keys[1]!, [value], 60_000);
          link.eval("return redis.call('STRLEN', KEYS[2])", keys, [], receiver);
        });
        return Number(reply);
      });
      expect(new Set(await Promise.all(lengths))).toEqual(new Set([value.length]));
    });

    it('sets a value until its expiry', async () => {
      const key = newKey();
      await evaluated(ECHO, key, '');
      link.set(key, [Buffer.from('x')], 60_000);
      const { reply } = await evaluated("return redis.call('PTTL', KEYS[1])", key);
      expect(Number(reply)).toBeGreaterThan(0);
      expect(Number(reply)).toBeLessThanOrEqual(60_000);
      link.set(key, [Buffer.from('x')], 1);
      const read = () => asked(link, (receiver) => link.get(key, receiver));
      await until(async () => (await read()).reply === null);
    });

    it('adds its prefix to every key', async () => {
      const two = ['{link}:1', '{link}:2'];
      const { reply } = await asked(link, (receiver) =>
        link.eval('return KEYS', two, [], receiver),
      );
      expect((reply as unknown[]).map(String)).toEqual(two.map((key) => link.keyPrefix + key));
    });

    it('runs a script that the server has by its SHA-1, and says so of one that it has not', async () => {
      const key = newKey();
      const unknown = await asked(link, (receiver) =>
        link.evalsha('0'.repeat(40), [key], ['x'], receiver),
      );
      expect(link.failureOf(unknown.error)).toMatchObject({
        kind: 'script_missing',
        isReply: true,
      });
      await evaluated(ECHO, key, '');
      const { reply } = await asked(link, (receiver) =>
        link.evalsha(ECHO_SHA1, [key], ['x'], receiver),
      );
      expect(String(reply)).toBe('x');
    });

    it('says that a script is missing after SCRIPT FLUSH, and runs its text', async () => {
      const key = newKey();
      await evaluated(ECHO, key, '');
      await atAll('SCRIPT', 'FLUSH');
      const byHash = () =>
        asked(link, (receiver) => link.evalsha(ECHO_SHA1, [key], ['x'], receiver));
      const { error } = await byHash();
      expect(link.failureOf(error)).toMatchObject({ kind: 'script_missing', isReply: true });
      expect(String((await evaluated(ECHO, key, 'x')).reply)).toBe('x');
      expect(String((await byHash()).reply)).toBe('x');
    });

    it('gives integers above 2^53 digit for digit, as the text that a script replies', async () => {
      const largest = String(2n ** 63n - 1n);
      const count = `redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000)
        redis.call('INCRBY', KEYS[1], ARGV[2])
        return redis.call('GET', KEYS[1])`;
      const before = String(2n ** 63n - 3n);
      expect(String((await evaluated(count, newKey(), before, '2')).reply)).toBe(largest);
    });

    it.each([
      ['OOM no memory', 'rejected'],
      ['BUSY a script', 'not_executed'],
      ['NOPERM no right', 'misconfigured'],
      ['STRANGE words of a proxy', 'unknown'],
    ])('says what the error reply "%s" means: %s', async (text, kind) => {
      const { error } = await evaluated('return redis.error_reply(ARGV[1])', newKey(), text);
      expect(link.failureOf(error)).toMatchObject({ kind, isReply: true });
      expect(link.failureOf(error).cause).toContain(text);
    });

    it('knows what was not sent, and what has an unknown end', () => {
      expect(link.failureOf(new NotSentError())).toMatchObject({ kind: 'not_executed' });
      expect(link.failureOf(new Error('lost'))).toMatchObject({ kind: 'unknown', isReply: false });
    });

    it('gives a late reply to its command, and the next one its own', async () => {
      const key = newKey();
      // Not by TIME: on Redis 8 it stands still while a script runs, until the server counts as busy.
      const slow = `for i = 1, 100000 do redis.sha1hex(ARGV[1]) end
        return ARGV[1]`;
      const late = evaluated(slow, key, 'late');
      const next = evaluated(ECHO, key, 'next');
      expect(String((await late).reply)).toBe('late');
      expect(String((await next).reply)).toBe('next');
    });

    it('closes a connection on which a reply went to another command, and reports it once', async () => {
      const key = newKey();
      const { order } = await evaluated(ECHO, key, '');
      const start = events.length;
      const pending = sent((receiver) => link.eval(ECHO, [key], ['x'], receiver));
      const error = order!.broken();
      order!.broken();
      expect(events.slice(start)).toEqual([{ kind: 'out_of_step', error }]);
      expect(link.failureOf((await pending).error)).toMatchObject({ kind: 'unknown' });
      await until(async () => String((await evaluated(ECHO, key, 'again')).reply) === 'again');
    });

    it('connects again after its connections are lost', async () => {
      const key = newKey();
      await evaluated(ECHO, key, '');
      const start = events.length;
      await atAll('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await until(async () => String((await evaluated(ECHO, key, 'again')).reply) === 'again');
      await until(() => link.unavailable === undefined);
      const seen = isHidden ? [] : [{ kind: 'lost' }, { kind: 'ready' }];
      if (!isCluster) expect(events.slice(start)).toEqual(seen);
    });

    it('lists the strings of every server, page by page', async () => {
      const start = newKey();
      const expected = Array.from({ length: 30 }, (_, i) => `${start}:${i}`);
      for (const key of expected) {
        await evaluated("return redis.call('SET', KEYS[1], 'x', 'EX', 60)", key);
      }
      await evaluated("return redis.call('LPUSH', KEYS[1], 'x')", `${start}:list`);
      const found = new Set<string>();
      let cursor = '0';
      do {
        const { reply } = await asked(link, (receiver) =>
          link.scan(cursor, `${link.keyPrefix}${start}:*`, 100, receiver),
        );
        const [next, page] = reply as [string, string[]];
        for (const key of page) found.add(key.slice(link.keyPrefix.length));
        cursor = next;
      } while (cursor !== '0');
      expect([...found].sort()).toEqual(expected.sort());
    });

    if (isHidden) {
      it('refuses to subscribe, and to wait for replicas', () => {
        const refused = expect.objectContaining({ code: 'idempotency_options_invalid' });
        expect(() => link.subscribe(() => undefined)).toThrow(refused);
        expect(() => link.wait({ count: 1, timeoutMs: 1 })).toThrow(refused);
      });
    } else {
      it('notifies who subscribes to a channel that is named like a key, until they unsubscribe', async () => {
        const received: string[] = [];
        const subscriber = link.subscribe((channel) => received.push(channel));
        const channel = newKey();
        const publish = () =>
          evaluated(
            'return redis.call(ARGV[1], KEYS[1], ARGV[2])',
            channel,
            link.publishCommand,
            '',
          );
        await subscriber.subscribe(channel);
        await publish();
        await until(() => received.length === 1);
        expect(received).toEqual([channel]);
        await subscriber.unsubscribe(channel);
        const { reply } = await publish();
        expect(Number(reply)).toBe(0);
        subscriber.close();
      });

      it('keeps its replies and its messages in step when a listener throws', async () => {
        const warned = jest.spyOn(process, 'emitWarning').mockReturnValue();
        const received: string[] = [];
        const subscriber = link.subscribe((channel) => {
          received.push(channel);
          throw new Error('of a listener');
        });
        const key = newKey();
        await subscriber.subscribe(key);
        const publish = "redis.call(ARGV[1], KEYS[1], '') return ARGV[2]";
        for (const number of ['1', '2', '3']) {
          const { reply } = await evaluated(publish, key, link.publishCommand, number);
          expect(String(reply)).toBe(number);
        }
        await until(() => received.length === 3);
        expect(received).toEqual([key, key, key]);
        expect(warned.mock.calls.map(([text]) => String(text))).toEqual(
          Array(3).fill(expect.stringContaining('of a listener')),
        );
        warned.mockRestore();
        await subscriber.unsubscribe(key);
        subscriber.close();
      });

      it('waits for replicas on a connection of its own, and says how the writes fared', async () => {
        const waiting = link.wait({ count: 10, timeoutMs: 50 });
        const { reply, unreplicated } = await asked(waiting, (receiver) =>
          waiting.eval(ECHO, [newKey()], ['x'], receiver),
        );
        expect(String(reply)).toBe('x');
        expect(waiting.failureOf(unreplicated)).toMatchObject({ kind: 'unreplicated' });
        await waiting.close();
        expect(waiting.unavailable).toMatchObject({ kind: 'rejected' });
        expect(link.unavailable).toBeUndefined();
      });
    }

    if (openAt !== undefined) {
      it.each([
        ['lose the reply', 1],
        ['lose the request', 0],
      ] as const)(
        'does not know whether a command ran whose connection ends, and sends it once: %s',
        async (fault, executions) => {
          const [server] = servers();
          const proxy = await RedisProxy.start(server!.port);
          const through = await openAt(proxy.port);
          const key = newKey();
          await asked(through, (receiver) => through.eval(ECHO, [key], [''], receiver));
          const { hit } = proxy.aim('EVAL', fault);
          const counted = sent((receiver) => through.eval(COUNT, [key], [], receiver));
          await hit;
          const { error } = await counted;
          expect(through.failureOf(error)).toMatchObject({ kind: 'unknown', isReply: false });
          // After the connection is replaced, a kept copy would have run.
          const again = await asked(through, (receiver) =>
            through.eval(ECHO, [key], ['again'], receiver),
          );
          expect(String(again.reply)).toBe('again');
          const stored = await server!.call('GET', through.keyPrefix + key);
          expect(Number(stored)).toBe(executions);
          await through.close();
          await proxy.stop();
        },
      );

      it('ends each command that is in flight when it is closed', async () => {
        const [server] = servers();
        const proxy = await RedisProxy.start(server!.port);
        const through = await openAt(proxy.port);
        const key = newKey();
        await asked(through, (receiver) => through.eval(ECHO, [key], [''], receiver));
        const aim = proxy.aim('EVAL', { replyDelayMs: 50 });
        const pending = sent((receiver) => through.eval(COUNT, [key], [], receiver));
        await aim.hit;
        await through.close();
        const { reply, error } = await pending;
        if (error === undefined) expect(Number(reply)).toBe(1);
        else expect(through.failureOf(error)).toMatchObject({ kind: 'unknown' });
        await proxy.stop();
      });
    }

    if (moveSlot !== undefined) {
      it('follows a slot that moves, with many commands at once, each of which runs once', async () => {
        const tag = `{${newKey()}}`;
        const names = Array.from({ length: CROWD }, (_, i) => `${tag}:${i}`);
        await evaluated(ECHO, tag, '');
        const end = await moveSlot(link.keyPrefix + tag);
        const counted = async (key: string) => {
          let redirection: Redirection | undefined;
          // As the store does: at once, and then again after a pause.
          for (let attempt = 0; attempt < 100; attempt += 1) {
            const { reply, error, order } = await sent((receiver) =>
              link.eval(COUNT, [key], [], receiver, redirection),
            ).catch((thrown: unknown): End => ({ error: thrown }));
            if (error === undefined) return Number(reply);
            expect(link.failureOf(error)).toMatchObject({
              kind: expect.stringMatching(/^(?:redirected|not_executed)$/),
            });
            const isNew = redirection === undefined && order !== undefined;
            redirection = isNew ? { error, order } : undefined;
            if (!isNew) await delay(5);
          }
          return 'never';
        };
        expect(await Promise.all(names.map(counted))).toEqual(names.map(() => 1));
        await end();
        expect(await Promise.all(names.map(counted))).toEqual(names.map(() => 2));
      });
    }

    it('reads INFO', async () => {
      const { reply } = await asked(link, (receiver) => link.info(receiver));
      expect(reply).toContain('redis_version:');
    });

    it('asks each server by its address, if it can', async () => {
      expect(link.servers === undefined).toBe(isBlind);
      if (isBlind) return;
      const key = newKey();
      await evaluated("return redis.call('SET', KEYS[1], 'x', 'EX', 60)", key);
      const servers = link.servers!();
      expect(new Set(servers.map(({ address }) => address)).size).toBe(isCluster ? 3 : 1);
      const values: unknown[] = [];
      for (const server of servers) {
        const { address, isEncrypted } = server;
        expect(address).toMatch(/^(?:the primary through )?(?:127\.0\.0\.1:\d+(?:, |$))+/);
        expect(isEncrypted).toBe(false);
        expect(await server.call('TIME')).toEqual([
          expect.stringMatching(/^\d+$/),
          expect.any(String),
        ]);
        expect(await server.call('CONFIG', 'GET', 'appendonly')).toEqual(['appendonly', 'no']);
        const info = String(await server.call('INFO'));
        if (address.includes(' ') || info.includes(`tcp_port:${address.split(':')[1]}`)) {
          // A client adds its prefix to a key of call(), or, as ioredis 5.4 and the nodes of a cluster, does not.
          const found = await Promise.all(
            [key, link.keyPrefix + key].map((name) =>
              server.call('GET', name).catch((error: unknown) => String(error).split(' ')[1]),
            ),
          );
          values.push(found.find((value) => value === 'x') ?? found[1]);
        }
        await expect(server.call('SELECT', 'x')).rejects.toThrow('ERR');
      }
      expect(values.sort()).toEqual(isCluster ? ['MOVED', 'MOVED', 'x'] : ['x']);
    });

    it('is unavailable for good once it is closed', async () => {
      const other = await open();
      await until(() => other.unavailable === undefined);
      await other.close();
      expect(other.unavailable).toMatchObject({ kind: 'rejected', isReply: false });
    });
  });
}

/** @returns what ends the move. */
export async function moveSlot(cluster: RedisCluster, key: string) {
  const slot = await cluster.slotOf(key);
  const from = await cluster.primaryOf(slot);
  const to = (await cluster.primaries()).find((node) => node !== from)!;
  await cluster.startMigration(slot, from, to);
  return async () => {
    await cluster.moveKeys(slot, from, to, 1_000);
    await cluster.finishMigration(slot, from, to);
  };
}
