import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { startRedis, type RedisServer } from '../../support/redis/redis-server.js';
import { describeWithClock, ServerClock } from '../../support/clocks/server-clock.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { NOTHING_TOLERATED } from '../../../lab/faults/expectations.js';
import { Lab } from '../../../lab/faults/lab.js';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';
import type { Point } from '../../../lab/faults/worker/mishap.js';
import type { StoreSettings } from '../../../lab/faults/worker/settings.js';

const LIMIT_MS = 20_000;
const LEASE_MS = 60_000;

describeWithClock('a worker that dies by kill -9', () => {
  let clock: ServerClock;
  let redis: RedisServer | undefined;
  let lab: Lab;
  let store: StoreSettings;
  let survivor: LabWorker;

  beforeAll(async () => {
    clock = new ServerClock();
    redis = await startRedis({ env: clock.env });
    lab = await Lab.set();
    store = { kind: 'redis', url: redis.url };
    survivor = await lab.start(store, { options: { lease: { duration: LEASE_MS } } });
  }, 60_000);

  afterAll(async () => {
    await lab.clear();
    await redis?.stop();
    clock.remove();
  });

  /** A worker dies at this point of the key's first attempt, and its client asks the other one. */
  async function crashAt(point: Point, key: string) {
    const victim = await lab.start(store, { options: { lease: { duration: LEASE_MS } } });
    const mishap = { point, action: { kind: 'crash' } } as const;
    const lost = await lab.client.send(victim.url, key, { mishap });
    expect(lost).toMatchObject({ error: 'ECONNRESET' });
    await victim.untilExit();
    clock.pass(LEASE_MS);
    return lab.client.ask(() => [survivor.url], key, { limitMs: LIMIT_MS });
  }

  // The worst point, and in `npm run test:all` each of the others.
  it.each(isTestAll ? (['after_effect', 'before_complete'] as const) : (['after_effect'] as const))(
    'at the point %s leaves an effect that a takeover repeats, and the takeover is reported [P17, P37]',
    async (point) => {
      const response = await crashAt(point, point);

      expect(response).toMatchObject({ status: 201, replayed: false });
      const [first, second, ...others] = lab.effects(point);
      expect(others).toEqual([]);
      expect(first).toMatchObject({ attempt: 1, isTakeover: false });
      expect(second).toMatchObject({
        attempt: 2,
        isTakeover: true,
        worker: survivor.name,
        execution: response.execution,
      });
      expect(second!.fence).toBeGreaterThan(first!.fence);
      expect(lab.eventsOf(point)).toContainEqual(
        expect.objectContaining({ type: 'takeover', fence: second!.fence }),
      );
    },
  );

  it('leaves nothing that was not reported to the successor [P06]', () => {
    const { objections, figures } = lab.judge({
      ...NOTHING_TOLERATED,
      extraExecutions: 'reported to the second',
      brokenConnections: true,
    });
    expect(objections).toEqual([]);
    const extra = isTestAll ? 2 : 1;
    expect(figures).toMatchObject({ extraExecutions: extra, reportedToSecond: extra });
  });

  if (!isTestAll) return;

  it.each(['after_begin', 'in_handler'] as const)(
    'at the point %s leaves a key that is released with its lease, and one effect [P16, P37]',
    async (point) => {
      const response = await crashAt(point, point);

      expect(response).toMatchObject({ status: 201, replayed: false });
      expect(lab.effects(point)).toMatchObject([
        { attempt: 2, isTakeover: true, worker: survivor.name, execution: response.execution },
      ]);
    },
  );

  it('at the point after_complete leaves an outcome that is replayed, though no client received it [P37]', async () => {
    const point = 'after_complete';
    const response = await crashAt(point, point);

    expect(response).toMatchObject({ status: 201, replayed: true });
    expect(lab.effects(point)).toMatchObject([{ attempt: 1, execution: response.execution }]);
    expect(lab.eventsOf(point)).not.toContainEqual(expect.objectContaining({ type: 'takeover' }));
  });

  it('leaves the outcome unknown with onTakeover: "reject": no second effect for any client [P16]', async () => {
    const options = { lease: { duration: LEASE_MS, onTakeover: 'reject' } } as const;
    const [victim, careful] = await Promise.all([
      lab.start(store, { options }),
      lab.start(store, { options }),
    ]);
    const key = 'never-twice';
    const mishap = { point: 'after_effect', action: { kind: 'crash' } } as const;
    await lab.client.send(victim.url, key, { mishap });
    expect(await lab.client.send(careful.url, key)).toMatchObject({
      status: 409,
      code: 'idempotency_in_progress',
    });
    clock.pass(LEASE_MS);

    const response = await lab.client.ask(() => [careful.url], key, { limitMs: LIMIT_MS });

    expect(response).toMatchObject({ status: 409, code: 'idempotency_outcome_unknown' });
    expect(response.retryAfter).toBeUndefined();
    expect(lab.effects(key)).toHaveLength(1);
  });
});
