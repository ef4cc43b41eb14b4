import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { Begin } from '../../support/internals/core.js';
import { success } from '../../support/engine/worker.js';
import { until } from '../../support/waiting/until.js';
import { RedisNode } from '../../support/redis/redis-node.js';
import { driveTimers } from '../../support/clocks/driven-time.js';
import { useServer } from '../../support/servers/use-server.js';
import { labRequest } from '../store/support/requests.js';
import type { LedgerWorker } from '../store/support/ledger-worker.js';
import { FailoverScene } from './support/failover-scene.js';

const HOUR_MS = 3_600_000;

let scene: FailoverScene;
let alice: LedgerWorker;
let bob: LedgerWorker;

const redis = useServer(() => RedisNode.start());
beforeEach(async () => {
  driveTimers(true);
  scene = new FailoverScene();
  alice = await scene.worker({ url: redis.url });
  bob = await scene.worker({ url: redis.url });
});
afterEach(async () => {
  jest.restoreAllMocks();
  await scene.stop();
  jest.useRealTimers();
});

/** Moves the wall clock of this process, with both workers in it; the monotonic one continues. */
function setWallClock(aheadMs: number): void {
  jest.restoreAllMocks();
  const now = Date.now.bind(Date);
  jest.spyOn(Date, 'now').mockImplementation(() => now() + aheadMs);
}

/** The server's clock, in milliseconds. */
async function serverTime(): Promise<number> {
  const [seconds] = (await redis.call('TIME')) as [string];
  return Number(seconds) * 1_000;
}

describe.each([HOUR_MS, -HOUR_MS])("A worker's wall clock that jumps by %d ms", (jumpMs) => {
  it('does not affect an attempt: its lease neither ends nor grows [P59]', async () => {
    const request = labRequest();
    const attempt = await alice.run(request);
    setWallClock(jumpMs);
    const heartbeats = () => alice.store.sentOf('extend').length;
    const third = Math.ceil(request.options.lease.durationMs / 3);
    jest.advanceTimersByTime(third);
    await until(() => heartbeats() > 0);
    expect(attempt.signal.aborted).toBe(false);
    expect(await bob.request(request)).toEqual({ kind: 'rejected', reason: 'in_progress' });
    setWallClock(-jumpMs);
    const soFar = heartbeats();
    jest.advanceTimersByTime(third);
    await until(() => heartbeats() > soFar);
    const execution = alice.effect(request, attempt);
    expect(await attempt.complete(success(execution))).toEqual({ kind: 'own' });
    expect(await bob.request(request)).toEqual({ kind: 'success', execution, replayed: true });
    expect(alice.reported).toEqual(['acquired', 'completed']);
    expect(alice.eventsOf('completed')).toMatchObject([{ late: false }]);
    expect(scene.ledger.effectsOn(request)).toHaveLength(1);
  });

  it('does not affect a begin: it sends the same time limit to the server, and is not late [P59]', async () => {
    await alice.request(labRequest());
    setWallClock(jumpMs);
    const request = labRequest();
    expect(await alice.request(request)).toMatchObject({ kind: 'success', replayed: false });
    const begins = alice.store.sentOf('begin').map(({ command }) => command as Begin);
    expect(begins).toHaveLength(2);
    const serverNow = await serverTime();
    const [, { notAfter } = { notAfter: 0 }] = begins;
    expect(Math.abs(notAfter - serverNow)).toBeLessThan(HOUR_MS / 2);
  });
});
