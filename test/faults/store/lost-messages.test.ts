import { expect, it } from '@jest/globals';
import { until } from '../../support/waiting/until.js';
import type { AimedFault } from '../../support/redis/proxy/aim.js';
import { describeWithClock } from '../../support/clocks/server-clock.js';
import { lostBegin } from './scenarios.js';
import { labRequest } from './support/requests.js';
import { recordIn } from './support/record-in.js';
import { useScene } from './support/use-scene.js';

const FAULTS = [
  'lose the reply',
  'swallow the reply',
  'lose the request',
  'swallow the request',
] satisfies AimedFault[];

/** By when a silent connection is replaced. */
const connection = { socketTimeout: 300 };

const used = useScene();

describeWithClock.each(FAULTS)('A connection to the store that will %s', (fault) => {
  it('of begin: the attempt runs once, as itself [P10, P45]', async () => {
    expect(await lostBegin(fault)(used.scene)).toEqual([]);
  });

  it("of complete: the outcome is stored once, and the response is the attempt's own [P10, P47]", async () => {
    const worker = await used.scene.worker({ connection });
    const request = labRequest();
    const aim = worker.proxy.aim('complete', fault);
    const response = await worker.request(request);
    expect(aim.hits).toBe(1);
    const executions = used.scene.ledger.effectsOn(request).map(({ execution }) => execution);
    expect([response]).toEqual(
      executions.map((execution) => ({ kind: 'success', execution, replayed: false })),
    );
    expect(worker.reported).toEqual(['acquired', 'completed']);
    expect(await worker.request(request)).toMatchObject({ kind: 'success', replayed: true });
    expect(used.scene.objections()).toEqual([]);
  });

  it('of release: the key is free at once [P10]', async () => {
    const worker = await used.scene.worker({ connection });
    const request = labRequest();
    const aim = worker.proxy.aim('release', fault);
    const failed = await worker.request(request, () => Promise.reject(new Error('declined')));
    expect(failed).toEqual({ kind: 'failure' });
    expect(aim.hits).toBe(1);
    expect(worker.reported).toEqual(['acquired', 'released']);
    expect(await worker.run(request)).toMatchObject({ number: 2, isTakeover: false });
  });

  it('of a heartbeat: the next one compensates, and the lease continues', async () => {
    const { scene } = used;
    const owner = await scene.worker({ connection });
    const other = await scene.worker();
    const request = labRequest();
    const aim = owner.proxy.aim('extend', fault);
    const response = await owner.request(request, async () => {
      const { leaseUntil } = await recordIn(scene, request);
      await scene.pass(request.options.lease.durationMs / 3);
      await aim.hit;
      const { leaseUntil: sinceThen } = await recordIn(scene, request);
      expect(sinceThen > leaseUntil).toBe(fault.endsWith('reply'));
      await until(async () => (await recordIn(scene, request)).leaseUntil > sinceThen);
      expect(await other.request(request)).toEqual({ kind: 'rejected', reason: 'in_progress' });
    });
    expect(response).toMatchObject({ kind: 'success', replayed: false });
    expect(owner.reported).toEqual(['acquired', 'completed']);
    expect(scene.objections()).toEqual([]);
  });
});

it('A begin without a reply, whose caller gives up, leaves a key that is free at once [P46]', async () => {
  const { scene } = used;
  const hasty = await scene.worker({ connection });
  const other = await scene.worker();
  // Less than the silent connection lasts: a resend would find that it has begun.
  const request = labRequest({ storeErrors: { commandTimeoutMs: 200, saveTimeoutMs: 10_000 } });
  const aim = hasty.proxy.aim('begin', 'swallow the reply');
  expect(await hasty.request(request)).toEqual({ kind: 'rejected', reason: 'store_unavailable' });
  await aim.hit;
  await until(async () => (await recordIn(scene, request)).state === 'released');
  const withLongTimeout = { ...request, options: labRequest().options };
  expect(await other.run(withLongTimeout)).toMatchObject({ number: 2, isTakeover: false });
});
