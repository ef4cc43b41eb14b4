import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { Lease, OwnerToken, RecordKey } from 'nestjs-idempotency/store';
import {
  IdempotencyEvents,
  type LeaseLossReason,
  NO_FINGERPRINT,
  DeadlineTimer,
  nodeClock,
  type Clock,
  LeaseKeeper,
  StoreUnavailableError,
} from '../../../support/internals/core.js';
import {
  FaultyStore,
  heldReply,
  heldRequest,
  lostReply,
  unavailable,
} from '../../../support/stores/faulty-store.js';
import { PromptStore } from '../../../support/stores/prompt-store.js';
import { Gate } from '../../../support/waiting/gate.js';
import { expectNoTimerRenewed, StandingClock } from '../../../support/clocks/standing-clock.js';
import { protocolOptions } from '../../../support/engine/protocol-options.js';

const LEASE_MS = 1_200;
const MAX_EXECUTION_MS = 12_000;
const HEARTBEAT_MS = LEASE_MS / 3;
const options = protocolOptions({
  lease: { duration: LEASE_MS, maxExecution: MAX_EXECUTION_MS },
  outcome: { retention: 60_000 },
});
const recordKey = 'record' as RecordKey;
const timeoutMs = 500;

describe('the lease keeper', () => {
  let clock: StandingClock;
  let store: FaultyStore;
  let keeper: LeaseKeeper;
  let lease: Lease;
  let startedAt: number;
  let reported: (LeaseLossReason | 'slow')[];

  beforeEach(async () => {
    clock = new StandingClock();
    store = new FaultyStore(new PromptStore({ now: () => clock.wallTime() }), clock);
    reported = [];
    startedAt = clock.now();
    lease = { recordKey, token: 'owner' as OwnerToken, fence: await begin('owner') };
    keeper = keep();
    await keeper.start(clock.now());
  });

  afterEach(() => {
    keeper.stop();
  });

  const observer = () => ({
    leaseLost: (reason: LeaseLossReason) => void reported.push(reason),
    slow: () => void reported.push('slow'),
    abortReason: (reason: LeaseLossReason) => reason,
  });

  const services = (own: Clock = clock) => ({
    store,
    events: new IdempotencyEvents(undefined, own),
    clock: own,
    deadlines: new DeadlineTimer(own),
    annotations: undefined,
  });

  function keep(from = startedAt, own?: Clock) {
    return new LeaseKeeper(services(own), lease, options, from, observer());
  }

  async function begin(token: string): Promise<number> {
    const reply = await store.begin({
      recordKey,
      token: token as OwnerToken,
      fingerprint: NO_FINGERPRINT,
      leaseMs: LEASE_MS,
      maxExecutionMs: MAX_EXECUTION_MS,
      recordRetentionMs: 60_000,
      notAfter: 0,
      onExpiredLease: 'takeover',
      timeoutMs,
    });
    if (!('fence' in reply)) throw new Error(`not acquired: ${reply.kind}`);
    return reply.fence;
  }

  const complete = (token: string, fence: number) =>
    store.complete(
      { recordKey, token: token as OwnerToken, fence },
      {
        state: 'completed',
        outcome: { header: '{}', body: Buffer.alloc(0) },
        retentionMs: 60_000,
        fingerprint: NO_FINGERPRINT,
        whenGone: 'report',
        timeoutMs,
      },
    );

  /** When heartbeats were sent, in milliseconds since the start. */
  const heartbeats = () => store.sentOf('extend').map(({ at }) => at - startedAt);

  describe('beats', () => {
    it('at every third of the lease, so that the lease never ends', async () => {
      await clock.advance(3 * LEASE_MS);
      const thirds = [1, 2, 3, 4, 5, 6, 7, 8, 9].map((third) => third * HEARTBEAT_MS);
      expect(heartbeats()).toEqual(thirds);
      expect((await store.inspect(recordKey, { timeoutMs }))?.leaseLeftMs).toBe(LEASE_MS);
      expect(reported).toEqual([]);
      expect(keeper.signal.aborted).toBe(false);
    });

    it('with the lease, the owner’s token and fence', async () => {
      await clock.advance(HEARTBEAT_MS);
      expect(store.sentOf('extend')).toEqual([
        expect.objectContaining({
          token: lease.token,
          fence: lease.fence,
          command: {
            leaseMs: LEASE_MS,
            recordRetentionMs: 60_000 + MAX_EXECUTION_MS,
            // A quarter of the lease: one without a reply leaves time for two more.
            timeoutMs: LEASE_MS / 4,
          },
        }),
      ]);
    });

    it('counting from before begin was sent, however late its reply came', async () => {
      keeper.stop();
      keeper = keep(startedAt - HEARTBEAT_MS / 2);
      await keeper.start(clock.now());
      await clock.advance(HEARTBEAT_MS / 2);
      expect(heartbeats()).toEqual([HEARTBEAT_MS / 2]);
    });

    it('but none starts past its hard deadline, though the server would still extend it', async () => {
      keeper.stop();
      keeper = keep(startedAt - MAX_EXECUTION_MS);
      expect(await keeper.start(clock.now())).toBeInstanceOf(StoreUnavailableError);
      expect(heartbeats()).toEqual([0]);
    });

    it('but none starts if the confirmation took most of its lease, too', async () => {
      const gate = Gate.closed();
      store.next('extend', heldReply(gate));
      keeper.stop();
      keeper = keep(startedAt - LEASE_MS);
      const started = keeper.start(clock.now());
      await clock.advance((LEASE_MS * 2) / 3);
      gate.open();
      expect(await started).toBeInstanceOf(StoreUnavailableError);
      expect(heartbeats()).toEqual([0]);
    });

    it('once at a time, however long a reply takes', async () => {
      const gate = Gate.closed();
      store.next('extend', heldReply(gate));
      await clock.advance(3 * LEASE_MS);
      expect(heartbeats()).toEqual([HEARTBEAT_MS]);
      gate.open();
      await clock.advance(1);
      expect(heartbeats()).toHaveLength(2);
    });

    it('at once, when the reply to the previous one took longer than a third of the lease', async () => {
      const gate = Gate.closed();
      store.next('extend', heldReply(gate));
      await clock.advance(HEARTBEAT_MS + LEASE_MS / 2);
      gate.open();
      await clock.advance(1);
      // No timer is shorter than 1 ms.
      expect(heartbeats()).toEqual([HEARTBEAT_MS, HEARTBEAT_MS + LEASE_MS / 2 + 1]);
    });

    it('sooner after a failed one, until one is confirmed', async () => {
      store.next('extend', unavailable, lostReply);
      await clock.advance(2 * HEARTBEAT_MS);
      const retries = [1, 2].map((retry) => HEARTBEAT_MS + (retry * LEASE_MS) / 12);
      expect(heartbeats()).toEqual([HEARTBEAT_MS, ...retries]);
      await clock.advance(HEARTBEAT_MS);
      expect(heartbeats().at(-1)).toBe(retries[1]! + HEARTBEAT_MS);
      expect(reported).toEqual([]);
    });

    it('never after the hard deadline', async () => {
      await clock.advance(2 * MAX_EXECUTION_MS);
      expect(Math.max(...heartbeats())).toBeLessThan(MAX_EXECUTION_MS);
      await expectNoTimerRenewed(clock);
    });
  });

  it('is done at the hard deadline, even with a heartbeat pending', async () => {
    const gate = Gate.closed();
    await clock.advance(MAX_EXECUTION_MS - HEARTBEAT_MS - 1);
    store.next('extend', heldReply(gate));
    await clock.advance(HEARTBEAT_MS + 1);
    expect(reported).toContain('max_execution');
    gate.open();
    await clock.advance(MAX_EXECUTION_MS);
    expect(Math.max(...heartbeats())).toBeLessThan(MAX_EXECUTION_MS);
    await expectNoTimerRenewed(clock);
  });

  describe('treats the lease as lost', () => {
    it('when another attempt has the record', async () => {
      const { signal } = keeper;
      store.always(unavailable, 'extend');
      await clock.advance(LEASE_MS - 1);
      // By the store's clock the lease ends when it ends in this process; another attempt takes over then.
      clock.stepWallTime(1);
      await begin('another');
      store.heal();
      await clock.advance(LEASE_MS);
      expect(reported).toEqual(['expired', 'lost']);
      expect(signal.reason).toBe('expired');
      await expectNoTimerRenewed(clock);
    });

    it('at the heartbeat that says so, while the lease still runs by the local clock', async () => {
      const { signal } = keeper;
      clock.stepWallTime(LEASE_MS);
      await begin('another');
      await clock.advance(HEARTBEAT_MS);
      expect(reported).toEqual(['lost']);
      expect(signal).toMatchObject({ aborted: true, reason: 'lost' });
      await clock.advance(MAX_EXECUTION_MS);
      expect(heartbeats()).toHaveLength(1);
    });

    it('when the record is gone', async () => {
      const { signal } = keeper;
      clock.stepWallTime(100_000);
      await clock.advance(HEARTBEAT_MS);
      expect(reported).toEqual(['gone']);
      expect(signal).toMatchObject({ aborted: true, reason: 'gone' });
      await expectNoTimerRenewed(clock);
    });

    it('when the store says that the deadline has passed', async () => {
      const { signal } = keeper;
      clock.stepWallTime(MAX_EXECUTION_MS);
      await clock.advance(HEARTBEAT_MS);
      expect(reported).toEqual(['max_execution']);
      expect(signal).toMatchObject({ aborted: true, reason: 'max_execution' });
      await expectNoTimerRenewed(clock);
    });

    it('at the hard deadline, by the local clock', async () => {
      const { signal } = keeper;
      await clock.advance(MAX_EXECUTION_MS - 1);
      expect(signal.aborted).toBe(false);
      await clock.advance(1);
      expect(signal).toMatchObject({ aborted: true, reason: 'max_execution' });
      expect(reported).toEqual(['slow', 'max_execution']);
    });

    it('when no heartbeat was confirmed in time, and not before', async () => {
      const { signal } = keeper;
      store.always(unavailable, 'extend');
      await clock.advance(LEASE_MS - 1);
      expect(signal.aborted).toBe(false);
      await clock.advance(1);
      expect(signal).toMatchObject({ aborted: true, reason: 'expired' });
      expect(reported).toEqual(['expired']);
    });

    it('a lease after the last confirmed heartbeat was sent, not answered', async () => {
      const { signal } = keeper;
      const gate = Gate.closed();
      store.next('extend', heldReply(gate));
      store.always(unavailable, 'extend');
      await clock.advance(2 * HEARTBEAT_MS);
      gate.open();
      await clock.advance(LEASE_MS - HEARTBEAT_MS - 1);
      expect(signal.aborted).toBe(false);
      await clock.advance(1);
      expect(signal.reason).toBe('expired');
    });
  });

  describe('its signal', () => {
    it('is one and the same', () => {
      expect(keeper.signal).toBe(keeper.signal);
    });

    it('is already aborted if requested after the loss', async () => {
      clock.stepWallTime(100_000);
      await clock.advance(HEARTBEAT_MS);
      expect(keeper.signal).toMatchObject({ aborted: true, reason: 'gone' });
      expect(keeper.signal).toBe(keeper.signal);
    });

    it('notifies its listeners once', async () => {
      let aborts = 0;
      keeper.signal.addEventListener('abort', () => void (aborts += 1));
      store.always(unavailable, 'extend');
      await clock.advance(LEASE_MS);
      store.heal();
      clock.stepWallTime(100_000);
      await clock.advance(LEASE_MS);
      expect(reported).toEqual(['expired', 'gone']);
      expect(aborts).toBe(1);
    });
  });

  describe('after the lease ran out', () => {
    it('continues its heartbeats, and a successful one revives the lease', async () => {
      store.always(unavailable, 'extend');
      await clock.advance(2 * LEASE_MS);
      store.heal();
      await clock.advance(LEASE_MS / 12);
      const revivedAt = heartbeats().at(-1)!;
      expect((await store.inspect(recordKey, { timeoutMs }))?.leaseLeftMs).toBeGreaterThan(0);
      await clock.advance(HEARTBEAT_MS);
      expect(heartbeats().at(-1)).toBe(revivedAt + HEARTBEAT_MS);
      expect(reported).toEqual(['expired']);
      expect(keeper.signal.reason).toBe('expired');
    });

    it('sends a heartbeat at once when the event loop was blocked for longer than the lease', async () => {
      clock.block(2 * LEASE_MS);
      await clock.advance(0);
      expect(reported).toEqual(['expired']);
      expect(store.sentOf('extend')).toHaveLength(1);
      expect((await store.inspect(recordKey, { timeoutMs }))?.leaseLeftMs).toBeGreaterThan(0);
    });
  });

  describe('reports a slow attempt', () => {
    it('once, at half of the hard deadline [P52]', async () => {
      await clock.advance(MAX_EXECUTION_MS / 2 - 1);
      expect(reported).toEqual([]);
      await clock.advance(1);
      expect(reported).toEqual(['slow']);
      await clock.advance(MAX_EXECUTION_MS / 2 - 1);
      expect(reported).toEqual(['slow']);
    });
  });

  describe('once stopped', () => {
    it('sends nothing, emits nothing and has no timer', async () => {
      keeper.stop();
      await expectNoTimerRenewed(clock);
      await clock.advance(2 * MAX_EXECUTION_MS);
      expect(heartbeats()).toEqual([]);
      expect(reported).toEqual([]);
      expect(keeper.signal.aborted).toBe(false);
    });

    it('ignores the reply to a pending heartbeat', async () => {
      const gate = Gate.closed();
      store.next('extend', heldRequest(gate));
      await clock.advance(HEARTBEAT_MS);
      clock.stepWallTime(100_000);
      keeper.stop();
      gate.open();
      await clock.advance(2 * MAX_EXECUTION_MS);
      expect(reported).toEqual([]);
      expect(heartbeats()).toHaveLength(1);
      await expectNoTimerRenewed(clock);
    });

    it('stops by itself when a heartbeat finds its attempt finished', async () => {
      await complete('owner', lease.fence);
      await clock.advance(2 * MAX_EXECUTION_MS);
      expect(heartbeats()).toHaveLength(1);
      expect(reported).toEqual([]);
      await expectNoTimerRenewed(clock);
    });
  });

  describe('without a lease to extend', () => {
    beforeEach(async () => {
      keeper.stop();
      keeper = new LeaseKeeper(services(), undefined, options, startedAt, observer());
      await keeper.start(clock.now());
    });

    it('sends no heartbeat, and watches the hard deadline and half of the time to it', async () => {
      const { signal } = keeper;
      await clock.advance(MAX_EXECUTION_MS / 2 - 1);
      expect(reported).toEqual([]);
      await clock.advance(1);
      expect(reported).toEqual(['slow']);
      await clock.advance(MAX_EXECUTION_MS / 2 - 1);
      expect([signal.aborted, keeper.isLost()]).toEqual([false, false]);
      await clock.advance(1);
      expect(signal).toMatchObject({ aborted: true, reason: 'max_execution' });
      expect(keeper.isLost()).toBe(true);
      expect(reported).toEqual(['slow', 'max_execution']);
      expect(heartbeats()).toEqual([]);
      await expectNoTimerRenewed(clock);
    });

    it('needs no confirmation of a begin that took most of the lease', () => {
      keeper.stop();
      clock.block(LEASE_MS);
      expect(keeper.start(clock.now())).toBeUndefined();
      expect(heartbeats()).toEqual([]);
    });

    it('starts again after a stop: reports no second slow attempt, and keeps the deadline', async () => {
      await clock.advance(MAX_EXECUTION_MS / 2);
      keeper.stop();
      await clock.advance(MAX_EXECUTION_MS / 4);
      await keeper.start(clock.now());
      expect(reported).toEqual(['slow']);
      await clock.advance(MAX_EXECUTION_MS / 4);
      expect(reported).toEqual(['slow', 'max_execution']);
    });

    it('reports what passed while it was stopped', async () => {
      keeper.stop();
      await clock.advance(2 * MAX_EXECUTION_MS);
      expect(reported).toEqual([]);
      await keeper.start(clock.now());
      await clock.advance(1);
      expect(reported).toEqual(['slow', 'max_execution']);
    });
  });

  describe('that gets a loss reported', () => {
    it('aborts and reports it once, and stops', async () => {
      const { signal } = keeper;
      keeper.lose('connection_lost');
      keeper.lose('connection_lost');
      expect(signal).toMatchObject({ aborted: true, reason: 'connection_lost' });
      await clock.advance(2 * MAX_EXECUTION_MS);
      expect(reported).toEqual(['connection_lost']);
      expect(heartbeats()).toEqual([]);
      await expectNoTimerRenewed(clock);
    });

    it('notifies in the async context of the request', () => {
      const request = new AsyncLocalStorage<string>();
      keeper.stop();
      keeper = request.run('its own', () => keep());
      const seen: unknown[] = [];
      keeper.signal.addEventListener('abort', () => seen.push(request.getStore()));
      request.run('the connection’s', () => {
        keeper.lose('connection_lost');
      });
      expect(seen).toEqual(['its own']);
    });
  });

  it('does not keep the process alive', async () => {
    const timers = () =>
      process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    const before = timers();
    const real = keep(nodeClock.now(), nodeClock);
    await real.start(nodeClock.now());
    const during = timers();
    real.stop();
    expect(during).toBe(before);
  });
});
