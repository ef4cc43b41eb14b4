import { expect, it } from '@jest/globals';
import { until } from '../../support/waiting/until.js';
import { describeWithClock } from '../../support/clocks/server-clock.js';
import { labRequest } from './support/requests.js';
import { mortalScene } from './support/mortal-redis.js';

const UNAVAILABLE = { kind: 'rejected', reason: 'store_unavailable' };

describeWithClock('Redis is down at begin', () => {
  it('fails closed: nothing runs, and the key is unused afterwards [P39]', async () => {
    const { scene, die, comeBack } = await mortalScene('durable');
    const worker = await scene.worker();
    const request = labRequest({ storeErrors: { commandTimeoutMs: 300 } });
    await die();
    expect(await worker.request(request)).toEqual(UNAVAILABLE);
    expect(scene.ledger.effectsOn(request)).toEqual([]);
    expect(worker.reported).toEqual(['store_unavailable', 'rejected']);
    await comeBack();
    const withLongTimeout = { ...request, options: labRequest().options };
    expect(await worker.insist(withLongTimeout)).toMatchObject({
      kind: 'success',
      replayed: false,
    });
    expect(scene.ledger.effectsOn(request)).toMatchObject([{ attempt: 1, isTakeover: false }]);
    expect(scene.objections()).toEqual([]);
  });

  it('fails open: it runs unprotected, and is saved once the store is back [P39]', async () => {
    const { scene, die, comeBack } = await mortalScene('durable');
    const worker = await scene.worker();
    const request = labRequest({
      storeErrors: { commandTimeoutMs: 300, whenUnavailable: 'execute' },
    });
    await die();
    expect(await worker.request(request)).toMatchObject({ kind: 'success', replayed: false });
    expect(worker.reported).toEqual(['store_unavailable', 'unprotected']);
    await comeBack();
    await until(() => worker.reported.includes('completed'));
    expect(worker.reported).not.toContain('record_lost');
    const other = await scene.worker();
    expect(await other.request(request)).toMatchObject({ kind: 'success', replayed: true });
    expect(scene.ledger.effectsOn(request)).toMatchObject([{ fence: 0 }]);
    expect(scene.objections()).toEqual([]);
  });

  it('fails open: two workers that both run report it, and one outcome remains', async () => {
    const { scene, die, comeBack } = await mortalScene('durable');
    const workers = [await scene.worker(), await scene.worker()];
    const request = labRequest({
      storeErrors: { commandTimeoutMs: 300, whenUnavailable: 'execute' },
    });
    await die();
    for (const worker of workers) await worker.request(request);
    await comeBack();
    const reported = () => workers.flatMap((worker) => worker.reported);
    await until(() => reported().includes('completed') && reported().includes('superseded'));
    const { effects } = scene.ledger;
    expect(effects).toHaveLength(2);
    const third = await scene.worker();
    const repeated = await third.request(request);
    expect(effects).toContainEqual(
      expect.objectContaining({ execution: 'execution' in repeated && repeated.execution }),
    );
    expect(scene.objections({ differentSuccesses: true, lostOutcomes: true })).toEqual([]);
  });
});

describeWithClock('Redis is down at complete', () => {
  it.each([
    ['respond', { kind: 'success', replayed: false }],
    ['error', UNAVAILABLE],
  ] as const)(
    "with storeErrors.whenNotSaved '%s': saving continues with heartbeats until it is confirmed",
    async (whenNotSaved, reported) => {
      const { scene, die, comeBack } = await mortalScene('durable');
      const worker = await scene.worker();
      const other = await scene.worker();
      const request = labRequest({
        storeErrors: { saveTimeoutMs: 300, whenNotSaved },
      });
      expect(await worker.request(request, die)).toMatchObject(reported);
      expect(worker.reported).toEqual(['acquired', 'save_delayed']);
      await scene.pass(request.options.lease.durationMs / 3);
      await until(() => worker.store.sentOf('extend').length > 0);
      await comeBack();
      await until(() => worker.reported.includes('completed'));
      expect(worker.eventsOf('completed')).toMatchObject([{ late: true }]);
      expect(await other.request(request)).toMatchObject({ kind: 'success', replayed: true });
      expect(scene.ledger.effectsOn(request)).toHaveLength(1);
      expect(scene.objections()).toEqual([]);
    },
  );

  it('and returns without its records: the outcome is restored, and the loss reported', async () => {
    const { scene, die, comeBack } = await mortalScene('ephemeral');
    const worker = await scene.worker();
    const request = labRequest({ storeErrors: { saveTimeoutMs: 300 } });
    expect(await worker.request(request, die)).toMatchObject({ kind: 'success' });
    await comeBack();
    await until(() => worker.reported.includes('completed'));
    expect(worker.reported).toEqual(['acquired', 'save_delayed', 'record_lost', 'completed']);
    expect(await worker.request(request)).toMatchObject({ kind: 'success', replayed: true });
    expect(scene.objections()).toEqual([]);
  });

  it('for the owner alone: saving continues until it finds the outcome of a successor [P40]', async () => {
    const { scene } = await mortalScene('durable');
    const owner = await scene.worker({ connection: { socketTimeout: 300 } });
    const successor = await scene.worker();
    const request = labRequest({ storeErrors: { saveTimeoutMs: 300, whenNotSaved: 'error' } });
    const cutOff = () => owner.proxy.swallowEverything();
    expect(await owner.request(request, cutOff)).toEqual(UNAVAILABLE);
    await scene.pass(request.options.lease.durationMs);
    const taken = await successor.request(request);
    owner.proxy.heal();
    await until(() => owner.reported.includes('superseded'));
    expect(await owner.request(request)).toEqual({ ...taken, replayed: true });
    expect(scene.objections()).toEqual([]);
  });

  it('and stays down: saving ends at the hard deadline, with an event [P40]', async () => {
    const { scene, die } = await mortalScene('durable');
    const worker = await scene.worker();
    const request = labRequest({
      lease: { maxExecutionMs: 60_000 },
      storeErrors: { saveTimeoutMs: 100 },
    });
    expect(await worker.request(request, die)).toMatchObject({ kind: 'success' });
    await scene.pass(request.options.lease.maxExecutionMs);
    await until(() => worker.reported.includes('save_failed'));
    expect(worker.reported.at(1)).toBe('save_delayed');
  });

  it('and the process ends: the drain has a limit, and reports what is left', async () => {
    const { scene, die } = await mortalScene('durable');
    const worker = await scene.worker({ shutdownTimeoutMs: 300 });
    await worker.request(
      labRequest({ storeErrors: { commandTimeoutMs: 300, saveTimeoutMs: 100 } }),
      die,
    );
    expect(await worker.engine.drain()).toBe(1);
    await until(() => worker.reported.includes('save_failed'));
  });
});
