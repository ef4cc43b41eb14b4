import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { loadScripts } from '../../../lib/stores/redis/lua-scripts.js';
import { withOtherPayload } from '../../integration/engine/support/worker.js';
import { withClock } from '../../support/injected-clock.js';
import { useRedis } from '../../support/use-redis.js';
import { useServer } from '../../support/use-server.js';
import { labClaim } from './support/claims.js';
import { DrivenTime } from './support/driven-time.js';
import { Scene } from './support/scene.js';

const RETENTION_MS = 3_600_000;

/** A clock for the scripts that stands still where the test has put it. */
const DRIVEN = `(function()
  local at = redis.call('GET', 'driven clock')
  return { math.floor(at / 1000), at % 1000 * 1000 }
end)()`;

const redis = useRedis();
let scene: Scene;
let now: number;

const time = useServer(
  () => new DrivenTime(),
  (it) => it.remove(),
);

beforeEach(async () => {
  time.start();
  const scripts = loadScripts((text) => withClock(text, DRIVEN));
  scene = new Scene(redis.port, { time, scripts });
  now = await scene.serverNow();
  await pass(0);
});
afterEach(async () => {
  await scene.stop();
  time.stop();
});

async function pass(ms: number, here = () => scene.pass(ms)): Promise<void> {
  now += ms;
  await scene.admin.set('driven clock', now);
  await here();
}

it('An outcome is replayed until the last millisecond of its retention, and then the key is new', async () => {
  const worker = await scene.worker();
  const claim = labClaim({ retentionMs: RETENTION_MS });
  const first = await worker.request(claim);
  await pass(RETENTION_MS - 1);
  expect(await worker.request(claim)).toEqual({ ...first, replayed: true });
  await pass(1);
  expect(await worker.run(claim)).toMatchObject({ number: 1, isTakeover: false });
});

it('After the retention another payload is welcome, and before it is not', async () => {
  const worker = await scene.worker();
  const claim = labClaim({ retentionMs: RETENTION_MS });
  await worker.request(claim);
  const other = withOtherPayload(claim);
  await pass(RETENTION_MS - 1);
  expect(await worker.begin(other)).toEqual({ kind: 'reject', reason: 'mismatch' });
  await pass(1);
  expect(await worker.run(other)).toMatchObject({ number: 1 });
});

it('An attempt that outlives the retention still has its record: it counts from the last heartbeat', async () => {
  const owner = await scene.worker();
  const other = await scene.worker();
  const claim = labClaim({ retentionMs: 1_000, maxExecutionMs: 120_000 });
  const answer = await owner.request(claim, async () => {
    for (let beat = 0; beat < 5; beat += 1) {
      await pass(claim.options.leaseMs / 3, () => scene.passToHeartbeat(owner, claim));
    }
    expect(await other.request(claim)).toEqual({ kind: 'rejected', reason: 'in_progress' });
  });
  expect(answer).toMatchObject({ kind: 'success' });
  expect(owner.told).toEqual(['acquired', 'completed']);
  expect(scene.objections()).toEqual([]);
});
