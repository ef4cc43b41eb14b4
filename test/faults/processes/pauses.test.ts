import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { useRedis } from '../../support/redis/use-redis.js';
import { NOTHING_TOLERATED } from '../../../lab/faults/expectations.js';
import { Lab } from '../../../lab/faults/lab.js';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';

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
      lab.start({ kind: 'redis', url: redis.url }, { options: { lease: { durationMs: 1_000 } } });
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
