import { withOtherPayload } from '../../support/engine/worker.js';
import { until } from '../../support/waiting/until.js';
import type { AimedFault } from '../../support/redis/proxy/aim.js';
import { labRequest } from './support/requests.js';
import { recordIn } from './support/record-in.js';
import type { Scene } from './support/scene.js';
import { scenario, type Verdict } from './support/verdict.js';

/** A begin is in transit for longer than its caller waits, and reaches the server after that. */
export const lateAfterTimeout = scenario(async (scene, verdict) => {
  const hasty = await scene.worker();
  const other = await scene.worker();
  // From its reply the worker knows the server's clock.
  await hasty.request(labRequest());
  const request = labRequest({ storeErrors: { commandTimeout: 300 } });
  const captured = hasty.proxy.capture('begin', 'silence');
  const rejected = await hasty.request(request);
  verdict.expect('the caller', 'reason' in rejected && rejected.reason, 'store_unavailable');

  const [reply] = await (await captured).deliver();

  verdict.expect('the reply to the copy', reply, 'late');
  const withLongTimeout = { ...request, options: labRequest().options };
  const next = await other.request(withLongTimeout);
  verdict.expect('the next request', next.kind, 'success');
});

/** A copy of a begin reaches the server after the release of its attempt. */
export const lateBegin = scenario(async (scene, verdict) => {
  const worker = await scene.worker();
  const request = labRequest();
  const captured = worker.proxy.capture('begin', 'break');
  const failed = await worker.request(request, () => Promise.reject(new Error('declined')));
  verdict.expect('the first attempt', failed.kind, 'failure');

  const reply = await (await captured).deliver();

  verdict.expect('the reply to the copy', reply, ['stale_begin']);
  let attempts: number | undefined;
  const again = await worker.request(request, ({ number }) => (attempts = number));
  verdict.expect('the next request', again.kind, 'success');
  verdict.expect('its attempt', attempts, 2);
});

/** A copy of a heartbeat reaches the server long after the operation. */
export const lateHeartbeat = scenario(async (scene, verdict) => {
  const owner = await scene.worker();
  const retentionMs = 3_600_000;
  const request = labRequest({ outcome: { retention: retentionMs } });
  const captured = owner.proxy.capture('extend', 'break');
  await owner.request(request, async () => {
    await scene.pass(request.options.lease.duration / 3);
    await captured;
  });
  const recordOf = async () => {
    const key = scene.redisKey(request);
    return [await scene.admin.get(key), await scene.admin.pexpiretime(key)];
  };
  const before = await recordOf();

  const reply = await (await captured).deliver();

  verdict.expect('the reply to the copy', reply, ['not_in_progress']);
  verdict.expect('the record', await recordOf(), before);
  const repeated = await owner.request(request);
  verdict.expect('the response to a retry', repeated.kind, 'success');
});

/**
 * An owner is disconnected for longer than its lease, another attempt takes over and completes, and only then
 * the owner is connected again, and its operation runs `end`.
 */
async function overtaken(scene: Scene, verdict: Verdict, end: () => unknown = () => undefined) {
  const owner = await scene.worker({ connection: { socketTimeout: 300 } });
  const successor = await scene.worker();
  const request = labRequest({ storeErrors: { saveTimeout: 10_000 } });
  let stored: string | null = null;
  const late = await owner.request(request, async ({ signal }) => {
    owner.proxy.swallowEverything();
    await scene.pass(request.options.lease.duration);
    const taken = await successor.request(request);
    verdict.expect("the successor's execution", taken.kind, 'success');
    await until(() => signal.aborted);
    stored = await scene.admin.get(scene.redisKey(request));
    owner.proxy.heal();
    return end();
  });
  return { owner, successor, request, late, stored };
}

/** The overtaken owner succeeds. */
export const lateOwner = scenario(async (scene, verdict) => {
  const { owner, successor, request, late, stored } = await overtaken(scene, verdict);
  const isReplay = 'replayed' in late && late.replayed;
  verdict.expect("the owner's response is the stored outcome", isReplay, true);
  const reported = new Set(['acquired', 'lease_lost', 'superseded']);
  verdict.expect("the owner's events", new Set(owner.reported), reported);
  verdict.expect("the successor's event", successor.reported.at(-2), 'takeover');
  verdict.expect('the record', await scene.admin.get(scene.redisKey(request)), stored);
  const repeated = await successor.request(request);
  verdict.expect('the response to a retry', repeated.kind, 'success');
});

/** The overtaken owner fails, and releases what its successor has completed. */
export const lateRelease = scenario(async (scene, verdict) => {
  const fail = () => Promise.reject(new Error('declined'));
  const { owner, successor, request, late } = await overtaken(scene, verdict, fail);
  verdict.expect('the owner', late.kind, 'failure');
  const reported = new Set(['acquired', 'lease_lost', 'release_failed']);
  verdict.expect("the owner's events", new Set(owner.reported), reported);
  const repeated = await successor.request(request);
  verdict.expect('a retry', repeated.kind === 'success' && repeated.replayed, true);
  verdict.expect('effects', scene.ledger.effectsOn(request).length, 1);
});

/** An operation takes longer than the lease that it began with, while heartbeats succeed. */
export const longRun = scenario(async (scene, verdict) => {
  const owner = await scene.worker();
  const other = await scene.worker();
  const request = labRequest();

  const response = await owner.request(request, async () => {
    const { leaseUntil } = await recordIn(scene, request);
    for (let beat = 0; beat < 4; beat += 1) await scene.passToHeartbeat(owner, request);
    verdict.expect('the first lease is over', (await scene.serverNow()) > leaseUntil, true);
    const duplicate = await other.request(request);
    verdict.expect('a duplicate', 'reason' in duplicate && duplicate.reason, 'in_progress');
  });

  verdict.expect("the owner's response", response.kind, 'success');
  verdict.expect('effects', scene.ledger.effectsOn(request).length, 1);
  verdict.expect("the owner's events", owner.reported, ['acquired', 'completed']);
});

/** A begin, or the reply to it, is lost. */
export const lostBegin = (fault: AimedFault) =>
  scenario(async (scene, verdict) => {
    const worker = await scene.worker({ connection: { socketTimeout: 300 } });
    const request = labRequest();
    const aim = worker.proxy.aim('begin', fault);
    let attempt: { number: number; isTakeover: boolean } | undefined;

    const response = await worker.request(request, ({ number, isTakeover }) => {
      attempt = { number, isTakeover };
    });

    verdict.expect('lost messages', aim.hits, 1);
    verdict.expect('the response to the request', response.kind, 'success');
    verdict.expect('the attempt', attempt, { number: 1, isTakeover: false });
    verdict.expect("the worker's events", worker.reported, ['acquired', 'completed']);
    const repeated = await worker.request(request);
    verdict.expect('a retry', repeated.kind === 'success' && repeated.replayed, true);
  });

/** A key is used for another payload, while the first one is in flight and after it. */
export const otherBody = scenario(async (scene, verdict) => {
  const worker = await scene.worker();
  const request = labRequest();
  const reuse = async (when: string) => {
    const rejected = await worker.begin(withOtherPayload(request));
    verdict.expect(`the reuse ${when}`, rejected, {
      kind: 'reject',
      reason: 'mismatch',
      trace: undefined,
    });
  };

  const first = await worker.request(request, () => reuse('in flight'));
  const record = await scene.admin.get(scene.redisKey(request));
  await reuse('afterwards');

  verdict.expect('the first one', first.kind, 'success');
  verdict.expect('the record', await scene.admin.get(scene.redisKey(request)), record);
  const repeated = await worker.request(request);
  verdict.expect('its retry', repeated.kind === 'success' && repeated.replayed, true);
  verdict.expect('effects', scene.ledger.effectsOn(request).length, 1);
});

/** Redis reaches `maxmemory` while one operation runs and another one is about to fail. */
export const outOfMemory = scenario(async (scene, verdict) => {
  const worker = await scene.worker();
  const failingWorker = await scene.worker();
  const options = { storeErrors: { commandTimeout: 2_000, saveTimeout: 1_000 } };
  const [running, failing, fresh] = [labRequest(options), labRequest(options), labRequest(options)];

  const failed = failingWorker.request(failing, async () => {
    const ran = await worker.request(running, async () => {
      const { leaseUntil } = await recordIn(scene, running);
      const beat = worker.proxy.aim('extend', { replyDelayMs: 0 });
      await scene.admin.config('SET', 'maxmemory', '1', 'maxmemory-policy', 'noeviction');
      const rejected = await worker.request(fresh);
      verdict.expect('a begin', 'reason' in rejected && rejected.reason, 'store_unavailable');
      await scene.pass(running.options.lease.duration / 3);
      await beat.hit;
      const renewed = await recordIn(scene, running);
      verdict.expect('the lease was renewed', renewed.leaseUntil > leaseUntil, true);
    });
    verdict.expect('the one that ran', ran.kind, 'success');
    throw new Error('declined');
  });
  verdict.expect('the one that failed', (await failed).kind, 'failure');
  const replayed = await worker.request(running);
  verdict.expect('a duplicate', replayed.kind, 'success');
  await scene.admin.config('SET', 'maxmemory', '0');

  const rejection = ['store_unavailable', 'rejected'];
  verdict.expect('the events of one worker', worker.reported, [
    'acquired',
    ...rejection,
    'completed',
    'replayed',
  ]);
  verdict.expect('the events of the other worker', failingWorker.reported, [
    'acquired',
    'released',
  ]);
  const again = await worker.request(failing);
  verdict.expect('the released key, with memory again', again.kind, 'success');
});

/** All data is flushed while an operation runs, and no retry arrives before its end. */
export const vanishedRecord = scenario(async (scene, verdict) => {
  const worker = await scene.worker();
  const request = labRequest();

  const response = await worker.request(request, () => scene.admin.flushall());

  verdict.expect('the response', 'replayed' in response && response.replayed, false);
  verdict.expect("the worker's events", worker.reported, ['acquired', 'record_lost', 'completed']);
  const repeated = await worker.request(request);
  verdict.expect('a retry', repeated.kind === 'success' && repeated.replayed, true);
  verdict.expect('effects', scene.ledger.effectsOn(request).length, 1);
});
