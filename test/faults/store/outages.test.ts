import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { Random } from '../../integration/differential/random.js';
import { describeWithClock } from '../../support/clocks/server-clock.js';
import { outcomeAsText, success } from '../../support/engine/worker.js';
import { during } from '../../support/waiting/during.js';
import { until } from '../../support/waiting/until.js';
import { lateOwner, lateRelease, longRun, otherBody } from './scenarios.js';
import { load } from './support/load.js';
import { mortalScene } from './support/mortal-redis.js';
import type { RemoteWorker } from './support/remote-worker.js';
import { labRequest } from './support/requests.js';
import { useScene } from './support/use-scene.js';

const used = useScene();

describe('outages', () => {
  const UNAVAILABLE = { kind: 'rejected', reason: 'store_unavailable' };

  describeWithClock('Redis is down at begin', () => {
    it('fails closed: nothing runs, and the key is unused afterwards [P39]', async () => {
      const { scene, die, comeBack } = await mortalScene('durable');
      const worker = await scene.worker();
      const request = labRequest({ storeErrors: { commandTimeout: 300 } });
      await die();
      expect(await worker.request(request)).toEqual(UNAVAILABLE);
      expect(scene.ledger.effectsOn(request)).toEqual([]);
      expect(worker.reported).toEqual(['store_unavailable', 'rejected']);
      await comeBack();
      const withLongTimeout = { ...request, options: labRequest().options };
      expect(await worker.insist(withLongTimeout)).toMatchObject({
        kind: 'success',
        replayed: false,
      });
      expect(scene.ledger.effectsOn(request)).toMatchObject([{ attempt: 1, isTakeover: false }]);
      expect(scene.objections()).toEqual([]);
    });

    it('fails open: it runs unprotected, and is saved once the store is back [P39]', async () => {
      const { scene, die, comeBack } = await mortalScene('durable');
      const worker = await scene.worker();
      const request = labRequest({
        storeErrors: { commandTimeout: 300, whenUnavailable: 'execute' },
      });
      await die();
      expect(await worker.request(request)).toMatchObject({ kind: 'success', replayed: false });
      expect(worker.reported).toEqual(['store_unavailable', 'unprotected']);
      await comeBack();
      await until(() => worker.reported.includes('completed'));
      expect(worker.reported).not.toContain('record_lost');
      const other = await scene.worker();
      expect(await other.request(request)).toMatchObject({ kind: 'success', replayed: true });
      expect(scene.ledger.effectsOn(request)).toMatchObject([{ fence: 0 }]);
      expect(scene.objections()).toEqual([]);
    });

    it('fails open: two workers that both run report it, and one outcome remains', async () => {
      const { scene, die, comeBack } = await mortalScene('durable');
      const workers = [await scene.worker(), await scene.worker()];
      const request = labRequest({
        storeErrors: { commandTimeout: 300, whenUnavailable: 'execute' },
      });
      await die();
      for (const worker of workers) await worker.request(request);
      await comeBack();
      const reported = () => workers.flatMap((worker) => worker.reported);
      await until(() => reported().includes('completed') && reported().includes('superseded'));
      const { effects } = scene.ledger;
      expect(effects).toHaveLength(2);
      const third = await scene.worker();
      const repeated = await third.request(request);
      expect(effects).toContainEqual(
        expect.objectContaining({ execution: 'execution' in repeated && repeated.execution }),
      );
      expect(scene.objections({ differentSuccesses: true, lostOutcomes: true })).toEqual([]);
    });
  });

  describeWithClock('Redis is down at complete', () => {
    it.each([
      ['respond', { kind: 'success', replayed: false }],
      ['error', UNAVAILABLE],
    ] as const)(
      "with storeErrors.whenNotSaved '%s': saving continues with heartbeats until it is confirmed",
      async (whenNotSaved, reported) => {
        const { scene, die, comeBack } = await mortalScene('durable');
        const worker = await scene.worker();
        const other = await scene.worker();
        const request = labRequest({
          storeErrors: { saveTimeout: 300, whenNotSaved },
        });
        expect(await worker.request(request, die)).toMatchObject(reported);
        expect(worker.reported).toEqual(['acquired', 'save_delayed']);
        await scene.pass(request.options.lease.duration / 3);
        await until(() => worker.store.sentOf('extend').length > 0);
        await comeBack();
        await until(() => worker.reported.includes('completed'));
        expect(worker.eventsOf('completed')).toMatchObject([{ late: true }]);
        expect(await other.request(request)).toMatchObject({ kind: 'success', replayed: true });
        expect(scene.ledger.effectsOn(request)).toHaveLength(1);
        expect(scene.objections()).toEqual([]);
      },
    );

    it('and returns without its records: the outcome is restored, and the loss reported', async () => {
      const { scene, die, comeBack } = await mortalScene('ephemeral');
      const worker = await scene.worker();
      const request = labRequest({ storeErrors: { saveTimeout: 300 } });
      expect(await worker.request(request, die)).toMatchObject({ kind: 'success' });
      await comeBack();
      await until(() => worker.reported.includes('completed'));
      expect(worker.reported).toEqual(['acquired', 'save_delayed', 'record_lost', 'completed']);
      expect(await worker.request(request)).toMatchObject({ kind: 'success', replayed: true });
      expect(scene.objections()).toEqual([]);
    });

    it('for the owner alone: saving continues until it finds the outcome of a successor [P40]', async () => {
      const { scene } = await mortalScene('durable');
      const owner = await scene.worker({ connection: { socketTimeout: 300 } });
      const successor = await scene.worker();
      const request = labRequest({ storeErrors: { saveTimeout: 300, whenNotSaved: 'error' } });
      const cutOff = () => owner.proxy.swallowEverything();
      expect(await owner.request(request, cutOff)).toEqual(UNAVAILABLE);
      await scene.pass(request.options.lease.duration);
      const taken = await successor.request(request);
      owner.proxy.heal();
      await until(() => owner.reported.includes('superseded'));
      expect(await owner.request(request)).toEqual({ ...taken, replayed: true });
      expect(scene.objections()).toEqual([]);
    });

    it('and stays down: saving ends at the hard deadline, with an event [P40]', async () => {
      const { scene, die } = await mortalScene('durable');
      const worker = await scene.worker();
      const request = labRequest({
        lease: { maxExecution: 60_000 },
        storeErrors: { saveTimeout: 100 },
      });
      expect(await worker.request(request, die)).toMatchObject({ kind: 'success' });
      await scene.pass(request.options.lease.maxExecution);
      await until(() => worker.reported.includes('save_failed'));
      expect(worker.reported.at(1)).toBe('save_delayed');
    });

    it('and the process ends: the drain has a limit, and reports what is left', async () => {
      const { scene, die } = await mortalScene('durable');
      const worker = await scene.worker({ shutdownTimeout: 300 });
      await worker.request(
        labRequest({ storeErrors: { commandTimeout: 300, saveTimeout: 100 } }),
        die,
      );
      expect(await worker.engine.drain()).toBe(1);
      await until(() => worker.reported.includes('save_failed'));
    });
  });
});

describe('outlived leases', () => {
  describeWithClock('An attempt with heartbeats', () => {
    it('may take longer than its lease: duplicates do not run', async () => {
      expect(await longRun(used.scene)).toEqual([]);
    });
  });

  describeWithClock('An attempt that outlives its lease', () => {
    it('responds with the success of its successor: superseded', async () => {
      expect(await lateOwner(used.scene)).toEqual([]);
    });

    it('frees nothing when it fails', async () => {
      expect(await lateRelease(used.scene)).toEqual([]);
    });

    it('keeps its outcome without a takeover', async () => {
      const { scene } = used;
      const owner = await scene.worker({ connection: { socketTimeout: 300 } });
      const request = labRequest({ storeErrors: { saveTimeout: 10_000 } });
      const response = await owner.request(request, async ({ signal }) => {
        owner.proxy.swallowEverything();
        await scene.pass(request.options.lease.duration);
        await until(() => signal.aborted);
        expect(signal.reason).toBe('expired');
        owner.proxy.heal();
      });
      expect(response).toMatchObject({ kind: 'success', replayed: false });
      expect(await owner.request(request)).toMatchObject({ kind: 'success', replayed: true });
      expect(scene.objections()).toEqual([]);
    });

    it('detects at its next heartbeat that another one has its record [P49]', async () => {
      const { scene } = used;
      const owner = await scene.worker({ connection: { socketTimeout: 300 } });
      const successor = await scene.worker();
      const request = labRequest({ storeErrors: { saveTimeout: 10_000 } });
      const attempt = await owner.run(request);
      const { signal } = attempt;
      owner.proxy.swallowEverything();
      await scene.pass(request.options.lease.duration);
      const next = await successor.run(request);
      owner.proxy.heal();
      // As soon as it has a connection again.
      await until(async () => {
        await scene.pass(1_000);
        return signal.aborted && owner.eventsOf('lease_lost').length > 1;
      });
      const reasons = owner.eventsOf('lease_lost').map(({ reason }) => reason);
      expect(reasons).toEqual(['expired', 'lost']);
      expect(await next.complete(success('paid'))).toEqual({ kind: 'own' });
      await attempt.release();
      expect(outcomeAsText(await owner.begin(request))).toMatchObject({ outcome: 'paid' });
    });
  });

  describeWithClock('An operation that hangs', () => {
    it('loses its key at the hard deadline, heartbeats or not', async () => {
      const { scene } = used;
      const hung = await scene.worker();
      const successor = await scene.worker();
      const request = labRequest({ lease: { maxExecution: 60_000 } });
      const { signal } = await hung.run(request);
      for (let beat = 0; beat < 5; beat += 1) await scene.passToHeartbeat(hung, request);
      expect(await successor.request(request)).toEqual({ kind: 'rejected', reason: 'in_progress' });
      await scene.pass(request.options.lease.duration / 3);
      const response = await successor.request(request);
      expect(response).toMatchObject({ kind: 'success', replayed: false });
      await until(() => signal.aborted);
      expect(hung.eventsOf('lease_lost').map(({ reason }) => reason)).toContain('max_execution');
      expect(successor.reported).toContain('takeover');
    });
  });

  describeWithClock('A connection to the store that takes two leases', () => {
    const request = () =>
      labRequest({ lease: { duration: 10_000 }, storeErrors: { commandTimeout: 60_000 } });
    const connection = { socketTimeout: 600_000 };

    it('to the server: nothing runs on a lease that has already ended', async () => {
      const { scene } = used;
      const slow = await scene.worker({ connection });
      const asked = request();
      const twoLeases = 2 * asked.options.lease.duration;
      const [begin, extend] = (['begin', 'extend'] as const).map((step) =>
        slow.proxy.aim(step, { requestDelayMs: twoLeases }),
      );
      const response = slow.request(asked);
      for (const { hit } of [begin!, extend!]) {
        await hit;
        await scene.pass(twoLeases);
      }
      expect(await response).toEqual({ kind: 'rejected', reason: 'store_unavailable' });
      expect(scene.ledger.effectsOn(asked)).toEqual([]);
      expect(await slow.request(asked)).toMatchObject({ kind: 'success', replayed: false });
    });

    it('and back: an acquired lease has ended when the reply arrives, and nothing runs', async () => {
      const { scene } = used;
      const slow = await scene.worker({ connection });
      const quick = await scene.worker();
      const asked = request();
      const { duration: leaseMs } = asked.options.lease;
      const begin = slow.proxy.aim('begin', { replyDelayMs: 2 * leaseMs });
      const begun = slow.request(asked);
      await begin.hit;
      await scene.pass(leaseMs);
      expect(await quick.request(asked)).toMatchObject({ kind: 'success', replayed: false });
      await scene.pass(leaseMs);
      expect(await begun).toEqual({ kind: 'rejected', reason: 'store_unavailable' });
      expect(scene.ledger.effectsOn(asked)).toHaveLength(1);
      expect(quick.reported).toContain('takeover');
      expect(await slow.request(asked)).toMatchObject({ kind: 'success', replayed: true });
    });
  });
});

// The death of the process does not represent a power failure: fsync is the server's own promise.
describe('Redis is killed and restarted', () => {
  it('with appendfsync always under load: no acknowledged record is lost [P12]', async () => {
    const { scene, die, comeBack } = await mortalScene('durable');
    const workers = [await scene.worker(), await scene.worker()];
    const loaded = load(workers, 150, {
      storeErrors: { commandTimeout: 20_000, saveTimeout: 20_000 },
    });
    for (const share of [30, 80]) {
      await until(() => scene.ledger.effects.length > share);
      await die();
      await comeBack();
    }
    const requests = await loaded;
    const [witness] = [await scene.worker()];
    for (const request of requests) {
      expect(scene.ledger.effectsOn(request)).toMatchObject([{ attempt: 1, isTakeover: false }]);
      expect(await witness.request(request)).toMatchObject({ kind: 'success', replayed: true });
    }
    expect(scene.objections()).toEqual([]);
  });

  it('without AOF: the holder of a record reports its loss, and restores the outcome', async () => {
    const { scene, die, comeBack } = await mortalScene('ephemeral');
    const worker = await scene.worker();
    const request = labRequest({ storeErrors: { saveTimeout: 20_000 } });
    const response = await worker.request(request, async () => {
      await die();
      await comeBack();
    });
    expect(response).toMatchObject({ kind: 'success', replayed: false });
    expect(worker.reported).toEqual(['acquired', 'record_lost', 'completed']);
    expect(await worker.request(request)).toMatchObject({ kind: 'success', replayed: true });
    expect(scene.objections()).toEqual([]);
  });

  it('without AOF: the loss of a completed record is undetectable, and it runs again [P18]', async () => {
    const { scene, die, comeBack } = await mortalScene('ephemeral');
    const worker = await scene.worker();
    const request = labRequest();
    await worker.request(request);
    await die();
    await comeBack();
    expect(await worker.insist(request)).toMatchObject({ kind: 'success', replayed: false });
    expect(scene.ledger.effectsOn(request)).toHaveLength(2);
    expect(worker.reported).not.toContain('record_lost');
  });
});

describe('The same key with another payload', () => {
  it('is rejected in flight and afterwards, and changes nothing [P23]', async () => {
    expect(await otherBody(used.scene)).toEqual([]);
  });
});

describe('Other data under the key', () => {
  it('runs nothing, even when the route fails open', async () => {
    const { scene } = used;
    const worker = await scene.worker();
    const request = labRequest({ storeErrors: { whenUnavailable: 'execute' } });
    const others = ['not', 'a', 'record'];
    await scene.admin.rpush(scene.redisKey(request), ...others);
    const response = await worker.request(request);
    expect(response).toEqual({ kind: 'rejected', reason: 'store_unavailable' });
    expect(scene.ledger.effectsOn(request)).toEqual([]);
    expect(worker.events).toMatchObject([
      { type: 'store_unavailable', error: { code: 'idempotency_store_misconfigured' } },
      { type: 'rejected', reason: 'store_unavailable' },
    ]);
    expect(await scene.admin.lrange(scene.redisKey(request), 0, -1)).toEqual(others);
  });
});

describe('stalls', () => {
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
      for (const { reported } of [worker, other])
        expect(reported).toEqual(['acquired', 'completed']);
      expect(scene.objections()).toEqual([]);
    });

    it('for two leases is reported to the owner, and there is one outcome, whichever attempt ran', async () => {
      const { scene } = used;
      const owner = await scene.worker();
      const others = [await scene.worker(), await scene.worker()];
      const request = labRequest({ storeErrors: { saveTimeout: 20_000 } });
      const twoLeases = 2 * request.options.lease.duration;
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
});

const KEYS = 150;
const LONG_TIMEOUTS = { storeErrors: { commandTimeout: 20_000, saveTimeout: 20_000 } };
/** Between two disturbances; on a starved machine there may be no quiet moment between them. */
const PAUSE_MS = 10;
const FAULTS = 100;

/** Sends every request to both workers while the store is disturbed. */
async function weather(injectFaults: () => unknown): Promise<RemoteWorker[]> {
  const { scene } = used;
  const workers = [await scene.worker(), await scene.worker()];
  let left = FAULTS;
  const requests = await during(load(workers, KEYS, LONG_TIMEOUTS), async () => {
    if (left > 0) await injectFaults();
    left -= 1;
    await delay(PAUSE_MS);
  });
  for (const request of requests) {
    expect(scene.ledger.effectsOn(request)).toMatchObject([{ attempt: 1, isTakeover: false }]);
  }
  expect(scene.objections()).toEqual([]);
  return workers;
}

it('A CLIENT KILL storm has every operation run once, and every client get a response [P01]', async () => {
  const workers = await weather(() =>
    used.scene.admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'),
  );
  for (const { proxy } of workers) expect(proxy.connections).toBeGreaterThan(1);
});

it('SCRIPT FLUSH every 10 ms has every operation run once, and no client notice [P01]', async () => {
  const workers = await weather(() => used.scene.admin.script('FLUSH'));
  expect(await used.scene.admin.info('errorstats')).toContain('NOSCRIPT');
  for (const { reported } of workers) expect(reported).not.toContain('store_unavailable');
});

it('Replies that are lost at random have every operation run once [P01]', async () => {
  const { scene } = used;
  const workers = [await scene.worker(), await scene.worker()];
  for (const [seed, { proxy }] of workers.entries()) {
    const random = new Random(seed);
    proxy.loseReplies(() => random.chance(0.1));
  }
  const requests = await load(workers, KEYS / 2, LONG_TIMEOUTS);
  for (const { proxy } of workers) expect(proxy.lostReplies).toBeGreaterThan(0);
  for (const request of requests) {
    expect(scene.ledger.effectsOn(request)).toMatchObject([{ attempt: 1, isTakeover: false }]);
  }
  expect(scene.objections()).toEqual([]);
});
