import { describe, expect, it } from '@jest/globals';
import { redisStore } from 'nestjs-idempotency/redis';
import { success } from '../../support/engine/worker.js';
import type { RedisNode } from '../../support/redis/redis-node.js';
import { healthOf } from '../../support/stores/health-of.js';
import { untilSettled } from '../../support/waiting/until.js';
import { labRequest } from '../store/support/requests.js';
import { LONG_TIMEOUTS } from './support/long-timeouts.js';
import { loseThePrimary, useSentinel } from './support/use-sentinel.js';

const used = useSentinel();

describe('Sentinel failover, synced', () => {
  it('planned: attempts in progress continue, and duplicates get their outcomes [P61]', async () => {
    const { group, scene, alice, bob } = used;
    const [before, running] = [labRequest(LONG_TIMEOUTS), labRequest(LONG_TIMEOUTS)];
    const paid = await alice.request(before);
    const response = await alice.request(running, () => group.failover());
    expect(response).toMatchObject({ kind: 'success', replayed: false });
    expect(await bob.request(before)).toEqual({ ...paid, replayed: true });
    expect(await bob.request(running)).toMatchObject({ kind: 'success', replayed: true });
    expect(alice.reported).toEqual(['acquired', 'completed', 'acquired', 'completed']);
    expect(scene.objections()).toEqual([]);
  });
});

describe('Sentinel failover, unsynced', () => {
  it('a record in progress is lost: its holder reports it, and restores the outcome [P15, P54]', async () => {
    const { group, scene, alice, bob } = used;
    await group.cutReplication();
    const request = labRequest(LONG_TIMEOUTS);
    const attempt = await alice.run(request);
    await loseThePrimary(used);
    const execution = alice.effect(request, attempt);
    expect(await attempt.complete(success(execution))).toEqual({ kind: 'own' });
    expect(alice.reported).toContain('record_lost');
    expect(await bob.request(request)).toEqual({ kind: 'success', execution, replayed: true });
    expect(scene.objections()).toEqual([]);
  });

  it('… acquired by a duplicate meanwhile: its holder is superseded, and all get one outcome [P54]', async () => {
    const { group, scene, alice, bob } = used;
    await group.cutReplication();
    const request = labRequest(LONG_TIMEOUTS);
    const attempt = await alice.run(request);
    await loseThePrimary(used);
    const response = await bob.request(request);
    const settlement = await attempt.complete(success(alice.effect(request, attempt)));
    expect(scene.ledger.effectsOn(request)).toHaveLength(2);
    expect(settlement).toMatchObject({ kind: 'other', state: 'completed' });
    expect(alice.reported).toContain('superseded');
    expect(await alice.request(request)).toEqual({ ...response, replayed: true });
    expect(scene.objections()).toEqual([]);
  });

  it('a completed record is lost: the loss is undetectable, and the operation runs again [P18, P55]', async () => {
    const { group, scene, alice, bob } = used;
    await group.cutReplication();
    const request = labRequest(LONG_TIMEOUTS);
    await alice.request(request);
    await loseThePrimary(used);
    expect(await bob.request(request)).toMatchObject({ kind: 'success', replayed: false });
    expect(scene.ledger.effectsOn(request)).toHaveLength(2);
    expect([...alice.reported, ...bob.reported]).toEqual([
      'acquired',
      'completed',
      'acquired',
      'completed',
    ]);
    expect(scene.objections()).toEqual([
      expect.stringContaining('1 × executed again after a success'),
      expect.stringContaining('1 × different successes for one key'),
    ]);
  });
});

describe('A primary that became a replica (READONLY)', () => {
  it('is abandoned by the connection for the new one, and the same attempt begins there [P63]', async () => {
    const { group, scene, alice } = used;
    const old = await group.primary();
    const [replica] = await group.replicas();
    await alice.request(labRequest(LONG_TIMEOUTS));
    await old.call('CONFIG', 'RESETSTAT');
    await old.call('REPLICAOF', '127.0.0.1', replica!.port);
    const request = labRequest(LONG_TIMEOUTS);
    expect(await alice.request(request)).toMatchObject({ kind: 'success', replayed: false });
    expect(await old.call('INFO', 'errorstats')).toContain('READONLY');
    expect(await group.primary()).not.toBe(old);
    expect(alice.store.sentOf('begin')).toHaveLength(2);
    expect(scene.ledger.effectsOn(request)).toMatchObject([{ attempt: 1, isTakeover: false }]);
    expect(scene.objections()).toEqual([]);
  });
});

describe('A Sentinel that hangs', () => {
  it('is skipped for the next one, and does not keep the store from closing', async () => {
    const { group, scene } = used;
    const [first, hanging, third] = group.sentinels as [RedisNode, RedisNode, RedisNode];
    hanging.pause();
    try {
      const sentinels = [hanging, first, third].map(({ address }) => address);
      const worker = await scene.sentinelWorker(group, { sentinels });
      expect(await worker.request(labRequest(LONG_TIMEOUTS))).toMatchObject({ kind: 'success' });

      const store = redisStore({
        connection: { ...group.connection, sentinels: [hanging.address] },
        onConnectionError: () => undefined,
      });
      await store.open();
      await store.close();
    } finally {
      hanging.resume();
    }
  });
});

describe('A health check', () => {
  it('is down while there is no primary, and up at the next one', async () => {
    const { group, alice } = used;
    const health = healthOf(alice.engine.store);
    const status = async () => (await health.check({ probe: 'write', maxAge: 0 })).status;
    await untilSettled(async () => (await status()) === 'up');
    const old = await group.primary();
    await old.kill();
    expect(await status()).toBe('down');
    await group.untilReplaced(old);
    await untilSettled(async () => (await status()) === 'up');
    await group.restart(old);
  });
});
