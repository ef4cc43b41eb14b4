import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { describe, expect, it } from '@jest/globals';
import { until } from '../../integration/redis/support/until.js';
import { labClaim } from './support/claims.js';
import { useScene } from './support/use-scene.js';

const used = useScene('--enable-debug-command', 'yes', '--busy-reply-threshold', '20');

/** Keeps the server from executing for so many milliseconds; resolves when it does again. */
type Stall = (ms: number) => Promise<unknown>;

const longScript: Stall = async (ms) => {
  const { scene, redis } = used;
  const other = new Redis(redis.url, { disconnectTimeout: 100 });
  const script = other.eval('while true do end', 0).catch(String);
  await delay(ms);
  await scene.admin.script('KILL');
  expect(await script).toContain('killed');
  other.disconnect();
};

describe.each<[string, Stall]>([
  ['DEBUG SLEEP', (ms) => used.scene.admin.call('DEBUG', 'SLEEP', String(ms / 1_000))],
  ['CLIENT PAUSE', (ms) => used.scene.admin.call('CLIENT', 'PAUSE', String(ms), 'ALL')],
  ['CLIENT PAUSE of writes', (ms) => used.scene.admin.call('CLIENT', 'PAUSE', String(ms), 'WRITE')],
  ['a script that keeps it BUSY', longScript],
])('A server that is stalled by %s', (_, stall) => {
  it('for less than a lease makes everybody wait, and nothing else', async () => {
    const { scene } = used;
    const worker = await scene.worker();
    const other = await scene.worker();
    const [claim, fresh] = [labClaim(), labClaim()];
    let stalled: Promise<unknown> | undefined;
    const answers = await Promise.all([
      worker.request(claim, () => {
        stalled = stall(300);
      }),
      other.request(fresh),
    ]);
    await stalled;
    for (const answer of answers)
      expect(answer).toMatchObject({ kind: 'success', replayed: false });
    for (const { told } of [worker, other]) expect(told).toEqual(['acquired', 'completed']);
    expect(scene.objections()).toEqual([]);
  });

  it('for two leases tells the owner, and there is one outcome whoever ran', async () => {
    const { scene } = used;
    const owner = await scene.worker();
    const others = [await scene.worker(), await scene.worker()];
    const claim = labClaim({ leaseMs: 600, saveTimeoutMs: 20_000 });
    let stalled: Promise<unknown> | undefined;
    const [late, ...repeated] = await Promise.all([
      owner.request(claim, async ({ signal }) => {
        stalled = stall(1_200);
        await until(() => signal.aborted);
      }),
      ...others.map(async (other) => {
        await until(() => stalled !== undefined);
        return other.insist(claim);
      }),
    ]);
    await stalled;
    expect(owner.eventsOf('lease_lost')[0]).toMatchObject({ reason: 'expired' });
    for (const answer of [late, ...repeated]) expect(answer.kind).toBe('success');
    expect(scene.objections()).toEqual([]);
  });
});
