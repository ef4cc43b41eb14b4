import { describe, expect, it } from '@jest/globals';
import { sentinelStore } from '../../../examples/which-store/sentinel-store.js';
import { success } from '../../support/engine/worker.js';
import type { OperationRequest } from '../../support/internals/core.js';
import { labRequest } from '../store/support/requests.js';
import { LONG_TIMEOUTS } from './support/long-timeouts.js';
import { ownerOf, requestsOf, useCluster } from './support/use-cluster.js';
import { usePartition } from './support/use-partition.js';
import { loseThePrimary, useSentinel } from './support/use-sentinel.js';

// The other kinds of failover: cluster.all.test.ts.
describe('Cluster failover', () => {
  const used = useCluster();

  it('planned: attempts in progress continue, and duplicates get their outcomes [P62]', async () => {
    const { servers, scene, alice, bob } = used;
    const [before, running] = requestsOf(2) as [OperationRequest, OperationRequest];
    const paid = await alice.request(before);
    const response = await alice.request(running, async () => {
      await servers.failover(await ownerOf(used, running));
    });
    expect(response).toMatchObject({ kind: 'success', replayed: false });
    expect(await bob.request(before)).toEqual({ ...paid, replayed: true });
    expect(await bob.request(running)).toEqual({ ...response, replayed: true });
    expect(alice.reported).toEqual(['acquired', 'completed', 'acquired', 'completed']);
    expect(scene.objections()).toEqual([]);
  });
});

// The other cases: partition.all.test.ts.
describe('A partitioned old primary that accepts writes alone', () => {
  const used = usePartition();

  it('gives one key to two owners; the one in flight is notified at the reunion [P56]', async () => {
    const { scene, alice } = used;
    const [taken, untaken] = [labRequest(LONG_TIMEOUTS), labRequest(LONG_TIMEOUTS)];
    const partition = await used.part();
    const bob = await used.newcomer();
    const [running, alone] = [await alice.run(taken), await alice.run(untaken)];
    const response = await bob.request(taken);
    expect(response).toMatchObject({ kind: 'success', replayed: false });
    await partition.heal();

    const settlement = await running.complete(success(alice.effect(taken, running)));
    expect(settlement).toMatchObject({ kind: 'other', state: 'completed' });
    expect(alice.reported).toContain('superseded');
    expect(await alice.request(taken)).toEqual({ ...response, replayed: true });

    const execution = alice.effect(untaken, alone);
    expect(await alone.complete(success(execution))).toEqual({ kind: 'own' });
    expect(alice.reported).toContain('record_lost');
    expect(await bob.request(untaken)).toEqual({ kind: 'success', execution, replayed: true });
    expect(scene.objections()).toEqual([]);
  });
});

describe('sentinel', () => {
  const used = useSentinel();

  // The other cases: sentinel.all.test.ts.
  describe('Sentinel failover, synced', () => {
    it('after a crash of the primary: attempts in progress continue, and requests meanwhile succeed in the end [P60]', async () => {
      const { group, scene, alice, bob } = used;
      const [before, running] = [labRequest(LONG_TIMEOUTS), labRequest(LONG_TIMEOUTS)];
      const paid = await alice.request(before);
      const attempt = await alice.run(running);
      await group.untilSynced();
      const meanwhile: OperationRequest[] = Array.from({ length: 10 }, () =>
        labRequest(LONG_TIMEOUTS),
      );
      const [responses] = await Promise.all([
        Promise.all(meanwhile.map((request) => bob.insist(request))),
        loseThePrimary(used),
      ]);
      expect(responses.every(({ kind }) => kind === 'success')).toBe(true);
      const execution = alice.effect(running, attempt);
      expect(await attempt.complete(success(execution))).toEqual({ kind: 'own' });
      expect(alice.reported).not.toContain('record_lost');
      expect(await bob.request(running)).toEqual({ kind: 'success', execution, replayed: true });
      expect(await bob.request(before)).toEqual({ ...paid, replayed: true });
      expect(scene.objections()).toEqual([]);
    });
  });

  describe('The store of docs/guides/which-store.md', () => {
    it('finds the primary, and has a replica confirm begin and completion', async () => {
      const { group, scene, alice } = used;
      const primary = await group.primary();
      await primary.call('CONFIG', 'RESETSTAT');
      const carol = await scene.workerOn(sentinelStore(group.connection.sentinels, 'payments'));
      const request = labRequest(LONG_TIMEOUTS);
      const paid = await carol.insist(request);
      expect(paid).toMatchObject({ kind: 'success', replayed: false });
      expect(await alice.request(request)).toEqual({ ...paid, replayed: true });
      const waits = /cmdstat_wait:calls=(\d+)/.exec(
        String(await primary.call('INFO', 'commandstats')),
      );
      expect(Number(waits?.[1])).toBeGreaterThanOrEqual(2);
      expect(scene.ledger.effectsOn(request)).toHaveLength(1);
    });
  });
});
