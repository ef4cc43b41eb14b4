import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { success } from '../../integration/engine/support/worker.js';
import { until } from '../../integration/redis/support/until.js';
import { RedisSentinel } from '../../support/redis-sentinel.js';
import { labClaim } from '../store/support/claims.js';
import type { LedgerWorker } from '../store/support/ledger-worker.js';
import { FailoverScene } from './support/failover-scene.js';
import { admitWorkers, Partition, WORKER } from './support/partition.js';

// Servers that have to agree take their time on a busy machine.
jest.setTimeout(60_000);

/** A failover takes seconds, and twice as long on a busy machine. */
const PATIENT = { commandTimeoutMs: 15_000, saveTimeoutMs: 15_000 };

/** Once the Sentinels are gone, ioredis would ask for them every minute. */
const LISTENING = { failoverDetector: true, sentinelReconnectStrategy: () => null };

let group: RedisSentinel;
let scene: FailoverScene;
let partition: Partition | undefined;
/** Connected to the old primary, before it is cut off and for as long as it is. */
let alice: LedgerWorker;

beforeEach(async () => {
  // A group of its own for each: one that was parted may take a minute to be in order again.
  group = await RedisSentinel.start();
  await admitWorkers(group);
  scene = new FailoverScene();
  // Nor do the Sentinels reach her.
  alice = await scene.sentinelWorker(group, { ...WORKER, failoverDetector: false });
});
afterEach(async () => {
  partition?.stop();
  partition = undefined;
  await scene.stop();
  await group.stop();
});

/** A process on the side of the new primary. */
function newcomer(): Promise<LedgerWorker> {
  return scene.sentinelWorker(group, WORKER);
}

describe('A partitioned old primary that may write alone', () => {
  it('gives one key to two owners; the one in flight at the reunion learns of it', async () => {
    const [taken, untaken] = [labClaim(PATIENT), labClaim(PATIENT)];
    partition = await Partition.around(group);
    const bob = await newcomer();
    const [running, alone] = [await alice.run(taken), await alice.run(untaken)];
    const answer = await bob.request(taken);
    expect(answer).toMatchObject({ kind: 'success', replayed: false });
    await partition.heal();

    const settlement = await running.complete(success(alice.effect(taken, running)));
    expect(settlement).toMatchObject({ kind: 'other', state: 'completed' });
    expect(alice.told).toContain('superseded');
    expect(await alice.request(taken)).toEqual({ ...answer, replayed: true });

    const execution = alice.effect(untaken, alone);
    expect(await alone.complete(success(execution))).toEqual({ kind: 'own' });
    expect(alice.told).toContain('record_lost');
    expect(await bob.request(untaken)).toEqual({ kind: 'success', execution, replayed: true });
    expect(scene.objections()).toEqual([]);
  });

  it('forgets at the reunion what it confirmed meanwhile: nobody can notice', async () => {
    const claim = labClaim(PATIENT);
    partition = await Partition.around(group);
    await alice.request(claim);
    await partition.heal();
    const bob = await newcomer();
    expect(await bob.request(claim)).toMatchObject({ kind: 'success', replayed: false });
    expect(alice.told).toEqual(['acquired', 'completed']);
    expect(scene.objections()).toEqual([
      expect.stringContaining('1 × executed again after a success'),
      expect.stringContaining('1 × different successes for one key'),
    ]);
  });
});

describe('A partitioned old primary whose worker still hears the Sentinels', () => {
  it('is left by its worker, if the connection listens to them', async () => {
    const claim = labClaim(PATIENT);
    const listening = await scene.sentinelWorker(group, { ...WORKER, ...LISTENING });
    await listening.request(labClaim(PATIENT));
    partition = await Partition.around(group);
    const bob = await newcomer();
    const answer = await bob.request(claim);
    await until(async () => {
      const own = labClaim(PATIENT);
      await listening.request(own);
      return (await bob.begin(own)).kind === 'replay';
    });
    expect(await listening.request(claim)).toEqual({ ...answer, replayed: true });
    await partition.heal();
  });
});

describe('A partitioned old primary with min-replicas-to-write 1', () => {
  beforeEach(async () => {
    for (const node of group.nodes) {
      await node.call('CONFIG', 'SET', 'min-replicas-max-lag', 1, 'min-replicas-to-write', 1);
    }
  });

  it('refuses (NOREPLICAS): 503, while the other side goes on with the key', async () => {
    const claim = labClaim(PATIENT);
    partition = await Partition.around(group);
    const impatient = { ...claim, options: { ...claim.options, commandTimeoutMs: 200 } };
    expect(await alice.request(impatient)).toEqual({
      kind: 'rejected',
      reason: 'store_unavailable',
    });
    const [{ error } = {}] = alice.eventsOf('store_unavailable');
    expect(error?.message).toContain('NOREPLICAS');
    const bob = await newcomer();
    const answer = await bob.request(claim);
    await partition.heal();
    expect(await alice.request(claim)).toEqual({ ...answer, replayed: true });
    expect(scene.ledger.effectsOn(claim)).toHaveLength(1);
    expect(scene.objections()).toEqual([]);
  });
});
