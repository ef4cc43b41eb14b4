import { describe, expect, it } from '@jest/globals';
import { describeWithClock } from '../../support/clocks/server-clock.js';
import type { AimedFault } from '../../support/redis/proxy/aim.js';
import type { RedisProxy } from '../../support/redis/proxy/redis-proxy.js';
import { until } from '../../support/waiting/until.js';
import {
  lateAfterTimeout,
  lateBegin,
  lateHeartbeat,
  lostBegin,
  outOfMemory,
  vanishedRecord,
} from './scenarios.js';
import { recordIn } from './support/record-in.js';
import { labRequest } from './support/requests.js';
import { useScene } from './support/use-scene.js';

const used = useScene();

it.each<[string, (proxy: RedisProxy) => void]>([
  ['whose server side has closed silently', (proxy) => proxy.loseServerSide()],
  ['that loses all replies', (proxy) => proxy.silenceOpenConnections()],
])(
  'A connection %s is replaced in the middle of an attempt, which continues',
  async (_, breakIt) => {
    const { scene } = used;
    const worker = await scene.worker({ connection: { socketTimeout: 300 } });
    const other = await scene.worker();
    const request = labRequest();
    const response = await worker.request(request, async ({ signal }) => {
      breakIt(worker.proxy);
      expect(await other.request(request)).toEqual({ kind: 'rejected', reason: 'in_progress' });
      expect(signal.aborted).toBe(false);
    });
    expect(response).toMatchObject({ kind: 'success', replayed: false });
    expect(worker.proxy.connections).toBe(2);
    expect(worker.reported).toEqual(['acquired', 'completed']);
    expect(await other.request(request)).toMatchObject({ kind: 'success', replayed: true });
    expect(scene.objections()).toEqual([]);
  },
);

it("A black hole rejects begins in time, and does not lose an attempt's outcome [P39]", async () => {
  const { scene } = used;
  const worker = await scene.worker({ connection: { socketTimeout: 300 } });
  const [running, fresh] = [
    labRequest({ storeErrors: { saveTimeout: 20_000 } }),
    labRequest({ storeErrors: { commandTimeout: 300 } }),
  ];
  const withLongTimeout = { ...fresh, options: labRequest().options };
  const response = await worker.request(running, async () => {
    worker.proxy.swallowEverything();
    expect(await worker.request(fresh)).toEqual({ kind: 'rejected', reason: 'store_unavailable' });
    await until(() => worker.proxy.connections > 1);
    worker.proxy.heal();
  });
  expect(response).toMatchObject({ kind: 'success', replayed: false });
  expect(await worker.insist(withLongTimeout)).toMatchObject({ kind: 'success', replayed: false });
  expect(scene.ledger.effectsOn(fresh)).toMatchObject([{ isTakeover: false }]);
  expect(scene.objections()).toEqual([]);
});

describe('late copies', () => {
  const succeed = () => undefined;
  const fail = () => Promise.reject(new Error('declined'));

  describeWithClock('A copy that reaches the server late', () => {
    it('of a begin whose caller has given up acquires nothing: late [P46]', async () => {
      expect(await lateAfterTimeout(used.scene)).toEqual([]);
    });

    it('of a begin whose attempt was released acquires nothing: stale_begin [P46]', async () => {
      expect(await lateBegin(used.scene)).toEqual([]);
    });

    it('of a heartbeat does not change the retention of a completed record: not_in_progress [P08]', async () => {
      expect(await lateHeartbeat(used.scene)).toEqual([]);
    });

    it.each([
      ['begin', 'completed'],
      ['complete', 'already'],
    ] as const)(
      'of a %s changes nothing once the outcome is stored: %s [P08]',
      async (step, reply) => {
        const { scene } = used;
        const worker = await scene.worker();
        const request = labRequest();
        const captured = worker.proxy.capture(step, 'break');
        await worker.request(request);
        const key = scene.redisKey(request);
        const before = [await scene.admin.get(key), await scene.admin.pexpiretime(key)];

        const [kind] = await (await captured).deliver();

        expect(kind).toBe(reply);
        expect([await scene.admin.get(key), await scene.admin.pexpiretime(key)]).toEqual(before);
        expect(await worker.request(request)).toMatchObject({ kind: 'success', replayed: true });
        expect(scene.objections()).toEqual([]);
      },
    );

    it.each([
      ['complete', 'superseded', succeed],
      ['release', 'lost', fail],
    ] as const)(
      "of a %s changes nothing once a successor's outcome is stored: %s [P09]",
      async (step, reply, prepare) => {
        const { scene } = used;
        const owner = await scene.worker({ connection: { socketTimeout: 300 } });
        const successor = await scene.worker();
        const request = labRequest({ storeErrors: { saveTimeout: 60_000 } });
        const captured = owner.proxy.capture(step, 'silence');
        const late = owner.request(request, prepare);
        const command = await captured;
        owner.proxy.swallowEverything();
        await scene.pass(request.options.lease.duration);
        const taken = await successor.request(request);
        const record = await scene.admin.get(scene.redisKey(request));

        const [kind] = await command.deliver();

        expect(kind).toBe(reply);
        expect(await scene.admin.get(scene.redisKey(request))).toBe(record);
        owner.proxy.heal();
        const reported = step === 'complete' ? { ...taken, replayed: true } : { kind: 'failure' };
        expect(await late).toEqual(reported);
        expect(scene.objections()).toEqual([]);
      },
    );
  });
});

describe('lost messages', () => {
  const FAULTS = [
    'lose the reply',
    'swallow the reply',
    'lose the request',
    'swallow the request',
  ] satisfies AimedFault[];

  /** By when a silent connection is replaced. */
  const connection = { socketTimeout: 300 };

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
        await scene.pass(request.options.lease.duration / 3);
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
    const request = labRequest({ storeErrors: { commandTimeout: 200, saveTimeout: 10_000 } });
    const aim = hasty.proxy.aim('begin', 'swallow the reply');
    expect(await hasty.request(request)).toEqual({ kind: 'rejected', reason: 'store_unavailable' });
    await aim.hit;
    await until(async () => (await recordIn(scene, request)).state === 'released');
    const withLongTimeout = { ...request, options: labRequest().options };
    expect(await other.run(withLongTimeout)).toMatchObject({ number: 2, isTakeover: false });
  });
});

describe('lost records', () => {
  describeWithClock('FLUSHALL in flight', () => {
    it('is reported by the holder at its end, and its outcome is restored [P06, P15, P53]', async () => {
      expect(await vanishedRecord(used.scene)).toEqual([]);
    });

    it('lets a duplicate run undetected: the first holder reports it, and responds with the one outcome [P53]', async () => {
      const { scene } = used;
      const holder = await scene.worker();
      const other = await scene.worker();
      const request = labRequest();
      const response = await holder.request(request, async () => {
        await scene.admin.flushall();
        await other.request(request);
      });
      expect(response).toMatchObject({ kind: 'success', replayed: true });
      expect(scene.ledger.effectsOn(request)).toHaveLength(2);
      expect(other.reported).not.toContain('takeover');
      expect(holder.reported).toContain('superseded');
      expect(scene.objections()).toEqual([]);
    });
  });

  describeWithClock('Redis at its maxmemory', () => {
    it('with noeviction rejects begins, and lets running attempts extend, complete and release [P48]', async () => {
      expect(await outOfMemory(used.scene)).toEqual([]);
    });

    it('with volatile-lru is reported at the start; the holder of an evicted record reports it [P15]', async () => {
      const { scene } = used;
      const { admin } = scene;
      await admin.config('SET', 'maxmemory-policy', 'volatile-lru');
      const worker = await scene.worker();
      const codes = (await worker.store.open()).map(({ code }) => code);
      // The scene's own opening remains.
      await worker.store.close();
      expect(codes).toContain('redis_may_evict');
      const request = labRequest();
      const response = await worker.request(request, async () => {
        await admin.config('SET', 'maxmemory', '1');
        await until(async () => (await admin.exists(scene.redisKey(request))) === 0);
        await admin.config('SET', 'maxmemory', '0', 'maxmemory-policy', 'noeviction');
      });
      expect(response).toMatchObject({ kind: 'success', replayed: false });
      expect(worker.reported).toEqual(['acquired', 'record_lost', 'completed']);
      expect(await worker.request(request)).toMatchObject({ kind: 'success', replayed: true });
      expect(scene.objections()).toEqual([]);
    });
  });
});
