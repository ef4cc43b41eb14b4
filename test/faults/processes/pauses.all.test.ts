import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { useRedis } from '../../support/redis/use-redis.js';
import { NOTHING_TOLERATED } from '../../../lab/faults/expectations.js';
import { Lab } from '../../../lab/faults/lab.js';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';
import { ARRIVAL } from '../../../lab/faults/worker/mishap.js';
import type { StoreSettings } from '../../../lab/faults/worker/settings.js';

const SHORT_LEASE_MS = 1_000;
/** Longer than anything in here takes. */
const LONG_LEASE_MS = 60_000;
const LIMIT_MS = 20_000;
const HUNG_LEASE_MS = 2_000;
const HUNG_EXECUTION_MS = 5_000;

/** A handler that runs until its process continues. */
const HELD = { point: 'in_handler', action: { kind: 'hold' } } as const;

// By SIGSTOP for longer than its lease: pauses.test.ts.
describe('a paused worker', () => {
  const redis = useRedis();
  let lab: Lab;
  let store: StoreSettings;
  let paused: LabWorker;
  let other: LabWorker;

  const restart = async (leaseMs: number, maxExecutionMs = 300_000) => {
    const options = { lease: { duration: leaseMs, maxExecution: maxExecutionMs } };
    [paused, other] = await Promise.all([
      lab.start(store, { options }),
      lab.start(store, { options }),
    ]);
  };

  beforeAll(async () => {
    lab = await Lab.set();
    store = { kind: 'redis', url: redis.url };
  }, 60_000);

  afterAll(() => lab.clear());

  describe('longer than its lease', () => {
    beforeAll(() => restart(SHORT_LEASE_MS), 60_000);

    it('by a blocked event loop is superseded as well [P38]', async () => {
      const key = 'blocked';
      const action = { kind: 'block', ms: 5 * SHORT_LEASE_MS } as const;
      const [first, second] = await Promise.all([
        lab.client.send(paused.url, key, { mishap: { point: 'after_effect', action } }),
        lab
          .untilBegan(key)
          .then(() => lab.client.ask(() => [other.url], key, { limitMs: LIMIT_MS })),
      ]);

      expect(second).toMatchObject({ status: 201, replayed: false });
      expect(first).toMatchObject({ status: 201, replayed: true, digest: second.digest });
      expect(lab.effects(key)).toHaveLength(2);
    });

    it('by a blocked event loop does not take over its own execution [P38]', async () => {
      const key = 'own';
      const block = { kind: 'block', ms: 2 * SHORT_LEASE_MS } as const;
      const responseOfFirst = lab.client.send(paused.url, key, { mishap: HELD });
      await lab.untilBegan(key);
      const duplicate = await lab.client.send(paused.url, key, {
        mishap: { point: ARRIVAL, action: block },
      });
      paused.releaseUnowned();
      const first = await responseOfFirst;

      expect(duplicate).toMatchObject({ status: 409, code: 'idempotency_in_progress' });
      expect(first).toMatchObject({ status: 201, replayed: false });
      expect(lab.effects(key)).toHaveLength(1);
      expect(await lab.client.send(paused.url, key)).toMatchObject({
        replayed: true,
        digest: first.digest,
      });
    });

    it('has reported each repeated execution to both owners [P14]', () => {
      const { objections, figures } = lab.judge({
        ...NOTHING_TOLERATED,
        extraExecutions: 'reported to both',
      });
      expect(objections).toEqual([]);
      expect(figures).toMatchObject({
        extraExecutions: 1,
        reportedToSecond: 1,
        reportedToFirst: 1,
      });
    });
  });

  describe('shorter than its lease', () => {
    beforeAll(() => restart(LONG_LEASE_MS), 60_000);

    it.each(['stopped-shortly', 'blocked-shortly'])('(%s) keeps its key', async (key) => {
      const block = { point: 'in_handler', action: { kind: 'block', ms: 3_000 } } as const;
      const isBlocked = key === 'blocked-shortly';
      const mishap = isBlocked ? block : HELD;
      const responseOfPaused = lab.client.send(paused.url, key, { mishap });
      await lab.untilBegan(key);
      if (!isBlocked) paused.stop();
      const rejected = await lab.client.send(other.url, key);
      if (!isBlocked) paused.continue();
      paused.releaseUnowned();
      const first = await responseOfPaused;

      expect(rejected).toMatchObject({ status: 409, code: 'idempotency_in_progress' });
      expect(first).toMatchObject({ status: 201, replayed: false });
      expect(await lab.client.send(other.url, key)).toMatchObject({
        status: 201,
        replayed: true,
        digest: first.digest,
      });
      expect(lab.effects(key)).toHaveLength(1);
      const types = lab.eventsOf(key).map(({ type }) => type);
      expect(types).toEqual(['lab:began', 'lab:settled']);
    });
  });

  describe('in a handler that hangs', () => {
    beforeAll(() => restart(HUNG_LEASE_MS, HUNG_EXECUTION_MS), 60_000);

    it('loses the key at the hard deadline, heartbeats or not [P16, P52]', async () => {
      const key = 'hung';
      const abandon = new AbortController();
      const hung = lab.client.send(paused.url, key, { mishap: HELD, signal: abandon.signal });
      await lab.untilBegan(key);
      const [began] = lab.eventsOf(key);
      const second = await lab.client.ask(() => [other.url], key, { limitMs: LIMIT_MS });
      abandon.abort();
      await hung;

      expect(second).toMatchObject({ status: 201, replayed: false });
      const [effect, ...more] = lab.effects(key);
      expect(more).toEqual([]);
      expect(effect).toMatchObject({ isTakeover: true, worker: other.name });
      // The heartbeats have kept it for longer than two leases.
      expect(effect!.at - began!.at).toBeGreaterThan(2 * HUNG_LEASE_MS);
      await lab.untilReported(
        (line) => line.type === 'lease_lost' && line.reason === 'max_execution',
      );
    });
  });
});
