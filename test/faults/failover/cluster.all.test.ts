import { describe, expect, it } from '@jest/globals';
import type { OperationRequest } from '../../support/internals/core.js';
import { success } from '../../support/engine/worker.js';
import { during } from '../../support/waiting/during.js';
import { labRequest } from '../store/support/requests.js';
import { LONG_TIMEOUTS } from './support/long-timeouts.js';
import { requestsOf, ownerOf, slotOf, useCluster } from './support/use-cluster.js';

const used = useCluster();

describe('Cluster failover', () => {
  it('after a crash of a primary: losses in flight are reported, the rest continues [P60]', async () => {
    const { servers, scene, alice, bob } = used;
    const running = labRequest(LONG_TIMEOUTS);
    const attempt = await alice.run(running);
    const primary = await ownerOf(used, running);
    const meanwhile = requestsOf(20);
    await primary.kill();
    const [responses] = await Promise.all([
      Promise.all(meanwhile.map((request) => bob.insist(request))),
      servers.failover(primary, 'force'),
    ]);
    expect(responses.every(({ kind }) => kind === 'success')).toBe(true);
    const execution = alice.effect(running, attempt);
    expect(await attempt.complete(success(execution))).toEqual({ kind: 'own' });
    expect(await bob.request(running)).toEqual({ kind: 'success', execution, replayed: true });
    expect(scene.objections()).toEqual([]);
    await primary.start();
  });
});

describe('A slot that migrates to another node', () => {
  it('is followed by attempts, duplicates and new keys alike (ASK, MOVED) [P57]', async () => {
    const { servers, scene, alice, bob } = used;
    const running = labRequest(LONG_TIMEOUTS);
    const attempt = await alice.run(running);
    const slot = await slotOf(used, running);
    const from = await servers.primaryOf(slot);
    const to = (await servers.primaries()).find((node) => node !== from)!;
    for (const node of servers.nodes) await node.call('CONFIG', 'RESETSTAT');

    await servers.startMigration(slot, from, to);
    expect(await bob.request(running)).toEqual({ kind: 'rejected', reason: 'in_progress' });
    await servers.moveKeys(slot, from, to, 1);
    expect(await bob.request(running)).toEqual({ kind: 'rejected', reason: 'in_progress' });
    const execution = alice.effect(running, attempt);
    expect(await attempt.complete(success(execution))).toEqual({ kind: 'own' });
    expect(await from.call('INFO', 'errorstats')).toContain('ASK');
    await servers.finishMigration(slot, from, to);
    expect(await bob.request(running)).toEqual({ kind: 'success', execution, replayed: true });
    expect(await from.call('INFO', 'errorstats')).toContain('MOVED');
    expect(alice.reported).toEqual(['acquired', 'completed']);
    expect(scene.objections()).toEqual([]);
  });

  it('does not disturb clients while requests arrive [P57]', async () => {
    const { servers, scene, alice, bob } = used;
    const asked = requestsOf(12);
    await Promise.all(asked.map((request) => alice.request(request)));
    const moveAll = async () => {
      for (const request of asked) {
        const slot = await slotOf(used, request);
        const from = await servers.primaryOf(slot);
        const to = (await servers.primaries()).find((node) => node !== from)!;
        await servers.startMigration(slot, from, to);
        await servers.finishMigration(slot, from, to);
      }
    };
    const kinds = new Set<string>();
    await during(moveAll(), async () => {
      const requests = [...asked, ...requestsOf(4)].map((request) => bob.request(request));
      for (const { kind } of await Promise.all(requests)) kinds.add(kind);
    });
    expect([...kinds]).toEqual(['success']);
    for (const request of asked) expect(scene.ledger.effectsOn(request)).toHaveLength(1);
    expect(bob.reported).not.toContain('store_unavailable');
    expect(scene.objections()).toEqual([]);
  });
});

describe('A slot without a node', () => {
  it('makes its keys unavailable (503, retryable), and no others [P57]', async () => {
    const { servers, scene, alice } = used;
    const [request, other] = requestsOf(2, { storeErrors: { commandTimeout: 2_000 } }) as [
      OperationRequest,
      OperationRequest,
    ];
    const slot = await slotOf(used, request);
    const owner = await servers.uncover(slot);
    expect(await alice.request(request)).toEqual({ kind: 'rejected', reason: 'store_unavailable' });
    const [{ error } = {}] = alice.eventsOf('store_unavailable');
    expect(error).toMatchObject({ code: 'idempotency_store_unavailable' });
    expect(error?.message).toContain('CLUSTERDOWN');
    expect(await alice.request(other)).toMatchObject({ kind: 'success' });
    await servers.assign(slot, owner);
    expect(await alice.insist(request)).toMatchObject({ kind: 'success', replayed: false });
    expect(scene.ledger.effectsOn(request)).toHaveLength(1);
    expect(scene.objections()).toEqual([]);
  });
});
