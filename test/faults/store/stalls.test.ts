import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { expect, it } from '@jest/globals';
import { until } from '../../support/waiting/until.js';
import { describeWithClock } from '../../support/clocks/server-clock.js';
import { labRequest } from './support/requests.js';
import { useScene } from './support/use-scene.js';

const STALL_MS = 300;

const used = useScene('--enable-debug-command', 'yes', '--busy-reply-threshold', '20');

/**
 * Keeps the server from executing for {@link STALL_MS}, and for `ms` more by its own clock; resolves when it
 * executes again.
 */
type Stall = (ms: number) => Promise<unknown>;

const longScript: Stall = async () => {
  const { scene, redis } = used;
  const other = new Redis(redis.url, { disconnectTimeout: 100 });
  const script = other.eval('while true do end', 0).catch(String);
  await delay(STALL_MS);
  // On a busy machine it may not run yet.
  await until(() =>
    scene.admin.script('KILL').then(
      () => true,
      () => false,
    ),
  );
  expect(await script).toContain('killed');
  other.disconnect();
};

/** Resolves once the server executes no writes. */
async function hasStalled(): Promise<void> {
  const witness = new Redis(used.redis.url, { disconnectTimeout: 100 });
  const write = () => witness.set('witness', '').catch(String);
  await until(async () => (await Promise.race([write(), delay(20)])) !== 'OK');
  witness.disconnect();
}

describeWithClock.each<[string, Stall]>([
  ['DEBUG SLEEP', () => used.scene.admin.call('DEBUG', 'SLEEP', STALL_MS / 1_000)],
  ['CLIENT PAUSE', (ms) => used.scene.admin.call('CLIENT', 'PAUSE', STALL_MS + ms, 'ALL')],
  [
    'CLIENT PAUSE of writes',
    (ms) => used.scene.admin.call('CLIENT', 'PAUSE', STALL_MS + ms, 'WRITE'),
  ],
  ['a script that keeps it BUSY', longScript],
])('A server that is stalled by %s', (_, stall) => {
  it('for less than a lease delays all requests, and has no other effect [P39]', async () => {
    const { scene } = used;
    const worker = await scene.worker();
    const other = await scene.worker();
    const [request, fresh] = [labRequest(), labRequest()];
    let stalled: Promise<unknown> | undefined;
    const responses = await Promise.all([
      worker.request(request, () => {
        stalled = stall(0);
      }),
      other.request(fresh),
    ]);
    await stalled;
    for (const response of responses)
      expect(response).toMatchObject({ kind: 'success', replayed: false });
    for (const { reported } of [worker, other]) expect(reported).toEqual(['acquired', 'completed']);
    expect(scene.objections()).toEqual([]);
  });

  it('for two leases is reported to the owner, and there is one outcome, whichever attempt ran', async () => {
    const { scene } = used;
    const owner = await scene.worker();
    const others = [await scene.worker(), await scene.worker()];
    const request = labRequest({ storeErrors: { saveTimeoutMs: 20_000 } });
    const twoLeases = 2 * request.options.lease.durationMs;
    let stalled: Promise<unknown> | undefined;
    const [late, ...repeated] = await Promise.all([
      owner.request(request, async ({ signal }) => {
        stalled = stall(twoLeases);
        await Promise.race([hasStalled(), stalled]);
        await scene.pass(twoLeases);
        await until(() => signal.aborted);
      }),
      ...others.map(async (other) => {
        await until(() => stalled !== undefined);
        return other.insist(request);
      }),
    ]);
    await stalled;
    expect(owner.eventsOf('lease_lost')[0]).toMatchObject({ reason: 'expired' });
    for (const response of [late, ...repeated]) expect(response.kind).toBe('success');
    expect(scene.objections()).toEqual([]);
  });
});
