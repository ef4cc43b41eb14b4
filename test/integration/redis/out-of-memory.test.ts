import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { RedisIdempotencyStore } from 'nestjs-idempotency/redis';
import { StoreUnavailableError, type Lease } from '../../support/internals/core.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { inStandingTime } from '../../support/clocks/driven-time.js';
import {
  beginCommand,
  completeCommand,
  extendCommand,
  leaseOf,
  newRecordKey,
  newToken,
  releaseCommand,
} from '../../support/stores/commands.js';
import { userClient } from './support/fixture.js';
import { useServer } from '../../support/servers/use-server.js';

const server = useServer(startRedis);
let client: Redis;
let store: RedisIdempotencyStore;
let lease: Lease;

/** A running attempt on a server that ran out of memory. */
async function startAttempt(): Promise<void> {
  client = userClient(server.url);
  store = new RedisIdempotencyStore({ client });
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
