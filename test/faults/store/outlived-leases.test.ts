import { expect, it } from '@jest/globals';
import { outcomeAsText, success } from '../../support/engine/worker.js';
import { until } from '../../support/waiting/until.js';
import { describeWithClock } from '../../support/clocks/server-clock.js';
import { lateOwner, lateRelease, longRun } from './scenarios.js';
import { labRequest } from './support/requests.js';
import { useScene } from './support/use-scene.js';

const used = useScene();

describeWithClock('An attempt with heartbeats', () => {
  it('may take longer than its lease: duplicates do not run', async () => {
    expect(await longRun(used.scene)).toEqual([]);
  });
});

describeWithClock('An attempt that outlives its lease', () => {
  it('responds with the success of its successor: superseded', async () => {
    expect(await lateOwner(used.scene)).toEqual([]);
  });

  it('frees nothing when it fails', async () => {
    expect(await lateRelease(used.scene)).toEqual([]);
  });

  it('keeps its outcome without a takeover', async () => {
    const { scene } = used;
    const owner = await scene.worker({ connection: { socketTimeout: 300 } });
    const request = labRequest({ storeErrors: { saveTimeoutMs: 10_000 } });
    const response = await owner.request(request, async ({ signal }) => {
      owner.proxy.swallowEverything();
      await scene.pass(request.options.lease.durationMs);
      await until(() => signal.aborted);
      expect(signal.reason).toBe('expired');
      owner.proxy.heal();
    });
    expect(response).toMatchObject({ kind: 'success', replayed: false });
    expect(await owner.request(request)).toMatchObject({ kind: 'success', replayed: true });
    expect(scene.objections()).toEqual([]);
  });

  it('detects at its next heartbeat that another one has its record [P49]', async () => {
    const { scene } = used;
    const owner = await scene.worker({ connection: { socketTimeout: 300 } });
    const successor = await scene.worker();
    const request = labRequest({ storeErrors: { saveTimeoutMs: 10_000 } });
    const attempt = await owner.run(request);
    const { signal } = attempt;
    owner.proxy.swallowEverything();
    await scene.pass(request.options.lease.durationMs);
    const next = await successor.run(request);
    owner.proxy.heal();
    // As soon as it has a connection again.
    await until(async () => {
      await scene.pass(1_000);
      return signal.aborted && owner.eventsOf('lease_lost').length > 1;
    });
    const reasons = owner.eventsOf('lease_lost').map(({ reason }) => reason);
    expect(reasons).toEqual(['expired', 'lost']);
    expect(await next.complete(success('paid'))).toEqual({ kind: 'own' });
    await attempt.release();
    expect(outcomeAsText(await owner.begin(request))).toMatchObject({ outcome: 'paid' });
  });
});

describeWithClock('An operation that hangs', () => {
  it('loses its key at the hard deadline, heartbeats or not', async () => {
    const { scene } = used;
    const hung = await scene.worker();
    const successor = await scene.worker();
    const request = labRequest({ lease: { maxExecutionMs: 60_000 } });
    const { signal } = await hung.run(request);
    for (let beat = 0; beat < 5; beat += 1) await scene.passToHeartbeat(hung, request);
    expect(await successor.request(request)).toEqual({ kind: 'rejected', reason: 'in_progress' });
    await scene.pass(request.options.lease.durationMs / 3);
    const response = await successor.request(request);
    expect(response).toMatchObject({ kind: 'success', replayed: false });
    await until(() => signal.aborted);
    expect(hung.eventsOf('lease_lost').map(({ reason }) => reason)).toContain('max_execution');
    expect(successor.reported).toContain('takeover');
  });
});

describeWithClock('A connection to the store that takes two leases', () => {
  const request = () =>
    labRequest({ lease: { durationMs: 10_000 }, storeErrors: { commandTimeoutMs: 60_000 } });
  const connection = { socketTimeout: 600_000 };

  it('to the server: nothing runs on a lease that has already ended', async () => {
    const { scene } = used;
    const slow = await scene.worker({ connection });
    const asked = request();
    const twoLeases = 2 * asked.options.lease.durationMs;
    const [begin, extend] = (['begin', 'extend'] as const).map((step) =>
      slow.proxy.aim(step, { requestDelayMs: twoLeases }),
    );
    const response = slow.request(asked);
    for (const { hit } of [begin!, extend!]) {
      await hit;
      await scene.pass(twoLeases);
    }
    expect(await response).toEqual({ kind: 'rejected', reason: 'store_unavailable' });
    expect(scene.ledger.effectsOn(asked)).toEqual([]);
    expect(await slow.request(asked)).toMatchObject({ kind: 'success', replayed: false });
  });

  it('and back: an acquired lease has ended when the reply arrives, and nothing runs', async () => {
    const { scene } = used;
    const slow = await scene.worker({ connection });
    const quick = await scene.worker();
    const asked = request();
    const { durationMs: leaseMs } = asked.options.lease;
    const begin = slow.proxy.aim('begin', { replyDelayMs: 2 * leaseMs });
    const begun = slow.request(asked);
    await begin.hit;
    await scene.pass(leaseMs);
    expect(await quick.request(asked)).toMatchObject({ kind: 'success', replayed: false });
    await scene.pass(leaseMs);
    expect(await begun).toEqual({ kind: 'rejected', reason: 'store_unavailable' });
    expect(scene.ledger.effectsOn(asked)).toHaveLength(1);
    expect(quick.reported).toContain('takeover');
    expect(await slow.request(asked)).toMatchObject({ kind: 'success', replayed: true });
  });
});
