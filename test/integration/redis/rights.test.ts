import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { startRedis } from '../../support/redis/redis-server.js';
import { useRedisClient } from '../../support/redis/use-redis.js';
import { useServer } from '../../support/servers/use-server.js';
import {
  beginCommand,
  completeCommand,
  extendCommand,
  leaseOf,
  releaseCommand,
  TIMEOUT_MS,
} from '../../support/stores/commands.js';
import { projectRoot } from '../../support/project-root.js';
import { ownStore } from './support/fixture.js';

const page = readFileSync(join(projectRoot, 'docs/operations/redis.md'), 'utf8');
const [, user = '', rules = ''] = /^ACL SETUSER (\w+) (.+)$/m.exec(page) ?? [];
const documented = rules.split(' ');

/** Sent by ioredis for its own purposes, which can do without. */
const BY_THE_CLIENT = 'client|';

// Its users change.
const server = useServer(startRedis);
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
  const replicated = ownStore(url, { connection, waitReplicas: { count: 1, timeoutMs: 1 } });
  await replicated.open();
  await replicated.begin(beginCommand({ timeoutMs: 300 })).catch(() => undefined);
}

describe('The rights that the documentation names', () => {
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
