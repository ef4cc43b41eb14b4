import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  NotSentError,
  type LinkEvent,
  type RedisLink,
  type ReplyOrder,
  type ReplyReceiver,
} from '../../../support/internals/redis.js';
import { START_HOOK_MS } from '../../../support/servers/start-server.js';
import { until } from '../../../support/waiting/until.js';

export interface LinkUnderTest {
  readonly name: string;
  readonly open: () => Promise<RedisLink>;
  /** Closes every connection to its servers. */
  readonly cut: () => Promise<unknown>;
  /** It is ready while one of its connections is replaced. */
  readonly isCluster?: boolean;
  /** It cannot ask servers one by one. */
  readonly isBlind?: boolean;
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
const EVERY_BYTE = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

let keys = 0;
const newKey = () => `link:${process.pid}:${(keys += 1)}`;

/** What the store relies on, of any link. */
export function describeLink({
  name,
  open,
  cut,
  isCluster = false,
  isBlind = false,
}: LinkUnderTest): void {
  describe(`The link ${name}`, () => {
    let link: RedisLink;
    const events: LinkEvent[] = [];
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
      const sha1 = '098e0f0d1448c0a81dafe820f66d460eb09263da';
      const { reply } = await asked(link, (receiver) => link.evalsha(sha1, [key], ['x'], receiver));
      expect(String(reply)).toBe('x');
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
      const slow = `local start = redis.call('TIME')
        local function us() local t = redis.call('TIME') return (t[1] - start[1]) * 1000000 + t[2] - start[2] end
        while us() < 200000 do end
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
      await cut();
      await until(async () => String((await evaluated(ECHO, key, 'again')).reply) === 'again');
      await until(() => link.unavailable === undefined);
      if (!isCluster) expect(events.slice(start)).toEqual([{ kind: 'lost' }, { kind: 'ready' }]);
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

    it('notifies who subscribes to a channel that is named like a key, until they unsubscribe', async () => {
      const received: string[] = [];
      const subscriber = link.subscribe((channel) => received.push(channel));
      const channel = newKey();
      const publish = () =>
        evaluated('return redis.call(ARGV[1], KEYS[1], ARGV[2])', channel, link.publishCommand, '');
      await subscriber.subscribe(channel);
      await publish();
      await until(() => received.length === 1);
      expect(received).toEqual([channel]);
      await subscriber.unsubscribe(channel);
      const { reply } = await publish();
      expect(Number(reply)).toBe(0);
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
