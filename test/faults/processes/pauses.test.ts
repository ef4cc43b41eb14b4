import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { NOTHING_TOLERATED, UNAVAILABLE } from '../../../lab/faults/expectations.js';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';
import { Lab } from '../../../lab/faults/lab.js';
import type { Point } from '../../../lab/faults/worker/mishap.js';
import type { StoreSettings } from '../../../lab/faults/worker/settings.js';
import { useRedis } from '../../support/redis/use-redis.js';

const LIMIT_MS = 20_000;

/** A handler that runs until its process continues. */
const HELD = { point: 'after_effect', action: { kind: 'hold' } } as const;

// The clock of a paused process cannot be driven; the other ways to pause: pauses.all.test.ts.
describe('a worker paused for longer than its lease, by SIGSTOP,', () => {
  const redis = useRedis();
  let lab: Lab;
  let paused: LabWorker;
  let other: LabWorker;

  beforeAll(async () => {
    lab = await Lab.set();
    const start = () =>
      lab.start({ kind: 'redis', url: redis.url }, { options: { lease: { duration: 1_000 } } });
    [paused, other] = await Promise.all([start(), start()]);
  }, 60_000);

  afterAll(() => lab.clear());

  it('is superseded, and responds with the outcome of its successor [P11, P38]', async () => {
    const key = 'stopped';
    const responseOfPaused = lab.client.send(paused.url, key, { mishap: HELD });
    // Paused before the handler starts, the attempt would find its lease over, and not start.
    await lab.untilEffect(key);
    paused.stop();
    const second = await lab.client.ask(() => [other.url], key, { limitMs: LIMIT_MS });
    paused.continue();
    paused.releaseUnowned();
    const first = await responseOfPaused;

    expect(second).toMatchObject({ status: 201, replayed: false });
    expect(first).toMatchObject({ status: 201, replayed: true, digest: second.digest });
    expect(lab.effects(key)).toHaveLength(2);
    const [one, two] = [...lab.effects(key)].sort((a, b) => a.fence - b.fence);
    expect(two).toMatchObject({ isTakeover: true, execution: second.execution });
    expect(lab.eventsOf(key)).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ type: 'takeover', fence: two!.fence }),
        expect.objectContaining({ type: 'lease_lost', fence: one!.fence }),
        expect.objectContaining({ type: 'superseded', fence: one!.fence }),
      ]),
    );
  });

  it('has reported the repeated execution to both owners [P14]', () => {
    const { objections, figures } = lab.judge({
      ...NOTHING_TOLERATED,
      extraExecutions: 'reported to both',
    });
    expect(objections).toEqual([]);
    expect(figures).toMatchObject({ extraExecutions: 1, reportedToSecond: 1, reportedToFirst: 1 });
  });
});

const RUNNING = 20;
/** Longer than anything in here takes: a key that waits for its lease is detected. */
const options = { lease: { duration: 60_000 }, limits: { shutdownTimeout: 60_000 } };

describe('SIGTERM under load', () => {
  const redis = useRedis();
  let lab: Lab;
  let store: StoreSettings;

  beforeAll(async () => {
    lab = await Lab.set();
    store = { kind: 'redis', url: redis.url };
  }, 60_000);

  afterAll(() => lab.clear());

  /** The signal takes a moment to arrive. */
  async function untilItRejects(url: string): Promise<void> {
    for (let number = 0; ; number += 1) {
      const { status } = await lab.client.send(url, `early-${number}`);
      if (status === 503) return;
    }
  }

  it('completes what runs, begins nothing more, and leaves no key behind [P44]', async () => {
    const [leaving, staying] = await Promise.all([
      lab.start(store, { options }),
      lab.start(store, { options }),
    ]);
    const running = Array.from({ length: RUNNING }, (_, index) => `running-${index}`);
    const held = (point: Point) => ({ mishap: { point, action: { kind: 'hold' } } }) as const;
    const responses = running.map((key) => lab.client.send(leaving.url, key, held('in_handler')));
    // Begun in the store, and returns when the shutdown is in progress.
    const unstarted = lab.client.send(leaving.url, 'unstarted', held('after_begin'));
    await Promise.all([...running, 'unstarted'].map((key) => lab.untilBegan(key)));

    const exited = leaving.terminate();
    await untilItRejects(leaving.url);
    const rejected = await lab.client.send(leaving.url, 'refused');
    leaving.releaseUnowned();

    expect(rejected).toMatchObject({ status: 503, code: 'idempotency_shutting_down' });
    expect(rejected.retryAfter).toBeGreaterThanOrEqual(1);
    expect(await unstarted).toMatchObject({ status: 503, code: 'idempotency_shutting_down' });
    for (const response of await Promise.all(responses)) {
      expect(response).toMatchObject({ status: 201, replayed: false });
    }
    await exited;
    // Not even in the store.
    expect(lab.eventsOf(rejected.key)).toEqual([]);

    for (const key of running) {
      expect(await lab.client.send(staying.url, key)).toMatchObject({ replayed: true });
    }
    for (const key of ['unstarted', rejected.key]) {
      expect(lab.effects(key)).toEqual([]);
      expect(await lab.client.send(staying.url, key)).toMatchObject({
        status: 201,
        replayed: false,
      });
      expect(lab.effects(key)).toMatchObject([{ isTakeover: false, worker: staying.name }]);
    }
    const { objections, figures } = lab.judge({
      ...NOTHING_TOLERATED,
      otherResponses: UNAVAILABLE,
    });
    expect(objections).toEqual([]);
    expect(figures.keysExecutedTwice).toBe(0);
    // Those that ran, the two that came too late, and those before the signal.
    expect(figures.executions).toBeGreaterThanOrEqual(RUNNING + 2);
  }, 60_000);
});
