import type { NestInterceptor } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { memoryStore } from 'nestjs-idempotency/memory';
import { NEVER, timeout } from 'rxjs';
import { DrivenTime } from '../../support/clocks/driven-time.js';
import { storyOf } from '../../support/engine/attempt-ends.js';
import { until } from '../../support/waiting/until.js';
import { Gate } from '../../support/waiting/gate.js';
import { emitOrder, orders } from './support/orders.js';
import { useBroker } from './support/use-broker.js';

const { consumers, openQueue } = useBroker();
const time = new DrivenTime();
beforeEach(() => time.start());
afterEach(() => time.stop());

const now = () => time.now();

/** An interceptor inside @Idempotent() that times out before the handler ends, the first time. */
function withShortTimeout(): NestInterceptor {
  let isFirst = true;
  return {
    intercept: (_, next) => {
      const wasFirst = isFirst;
      isFirst = false;
      return wasFirst ? next.handle().pipe(timeout(30)) : next.handle();
    },
  };
}

/** A handler that waits at its gate. It counts its executions, in total and at the same time. */
class SlowWork {
  readonly gate = new Gate();
  runs = 0;
  most = 0;
  private atIt = 0;

  constructor() {
    this.gate.close();
  }

  async run(): Promise<void> {
    this.runs += 1;
    this.atIt += 1;
    this.most = Math.max(this.most, this.atIt);
    await this.gate.pass();
    this.atIt -= 1;
  }
}

/** Counts the deliveries that reach the interceptor. */
function arrivals() {
  const counted = { count: 0 };
  const guard = {
    canActivate: () => {
      counted.count += 1;
      return true;
    },
  };
  return { counted, guard };
}

describe('a handler that continues after an inner interceptor has timed out', () => {
  it('does not run concurrently with itself, and its success counts: each copy is acknowledged', async () => {
    const queue = await openQueue();
    const work = new SlowWork();
    const { counted, guard } = arrivals();
    const { events } = await consumers.start(
      queue,
      orders(() => work.run(), {}, withShortTimeout()),
      { store: memoryStore() },
      { configure: (app) => app.useGlobalGuards(guard) },
    );
    await emitOrder(queue, 1);
    // It is redelivered, and waits.
    await until(() => counted.count >= 2);
    await emitOrder(queue, 1);
    await until(() => counted.count >= 3);
    expect(work.runs).toBe(1);
    work.gate.open();
    await queue.isEmpty();
    expect(work.runs).toBe(1);
    const types = events.map(({ type }) => type);
    expect(types.filter((type) => type === 'completed')).toHaveLength(1);
    expect(types.filter((type) => type === 'replayed')).toHaveLength(2);
    expect(types).not.toContain('released');
  });

  it('and then fails runs again, and not before', async () => {
    const queue = await openQueue();
    const work = new SlowWork();
    const { counted, guard } = arrivals();
    const controller = orders(
      async () => {
        await work.run();
        if (work.runs === 1) throw new Error('planned');
      },
      {},
      withShortTimeout(),
    );
    const { events } = await consumers.start(
      queue,
      controller,
      { store: memoryStore() },
      { configure: (app) => app.useGlobalGuards(guard) },
    );
    await emitOrder(queue, 1);
    await until(() => counted.count >= 2);
    expect(work.runs).toBe(1);
    work.gate.open();
    await until(() => work.runs === 2);
    await queue.isEmpty();
    expect(work.most).toBe(1);
    const types = storyOf(events);
    expect(types.filter((type) => type !== 'waited')).toEqual([
      'acquired',
      'released',
      'acquired',
      'completed',
    ]);
  });
});

/** Less than two heartbeats of the connection, whose timers are driven too. */
const ENDING_MS = 2_000;
/** The lease and the attempt expire at the same time. */
const ENDING = { lease: { durationMs: ENDING_MS, maxExecutionMs: ENDING_MS } };

describe('a message whose handler is still running at its deadline', () => {
  it.each(['before', 'after'] as const)(
    'is acknowledged if the handler acknowledges %s it, and no longer blocks the queue',
    async (when) => {
      const queue = await openQueue();
      const runs: number[] = [];
      const gate = new Gate();
      if (when === 'after') gate.close();
      const controller = orders(({ id, channel, message }) => {
        runs.push(id);
        if (id !== 1) return undefined;
        void gate.pass().then(() => channel.ack(message));
        return NEVER;
      }, ENDING);
      const { events } = await consumers.start(
        queue,
        controller,
        { store: memoryStore({ now }), limits: { shutdownTimeoutMs: 0 } },
        { prefetch: 1 },
      );
      await emitOrder(queue, 1);
      await emitOrder(queue, 2);
      await until(() => runs.length === 1);
      expect(await queue.depth()).toMatchObject({ ready: 1, unacked: 1 });
      await time.pass(ENDING_MS);
      await until(() => events.some(({ type }) => type === 'lease_lost'));
      gate.open();
      await until(() => runs.includes(2));
      await queue.isEmpty();
      expect(runs).toEqual([1, 2]);
    },
  );

  it('stays unacknowledged, and is not handled concurrently', async () => {
    const queue = await openQueue();
    const work = new SlowWork();
    const { counted, guard } = arrivals();
    const { events } = await consumers.start(
      queue,
      orders(() => work.run(), ENDING),
      { store: memoryStore({ now }) },
      { configure: (app) => app.useGlobalGuards(guard) },
    );
    await emitOrder(queue, 1);
    await until(() => work.runs === 1);
    await time.pass(ENDING_MS);
    await until(() => events.some(({ type }) => type === 'lease_lost'));
    expect(await queue.depth()).toMatchObject({ ready: 0, unacked: 1 });
    work.gate.open();
    await queue.isEmpty();
    expect(counted.count).toBe(1);
    expect(work.runs).toBe(1);
    expect(events).toContainEqual(expect.objectContaining({ type: 'completed', late: true }));
  });
});

describe('a handler that acknowledges late', () => {
  it('and requeues its message after an interceptor has timed out gets it again', async () => {
    const queue = await openQueue();
    const gate = Gate.closed();
    let arrived = 0;
    let runs = 0;
    const withShortTimeout: NestInterceptor = {
      intercept: (_, next) => (runs > 0 ? next.handle() : next.handle().pipe(timeout(30))),
    };
    const controller = orders(
      async ({ channel, message }) => {
        runs += 1;
        if (runs > 1) return;
        await gate.pass();
        channel.nack(message);
      },
      {},
      withShortTimeout,
    );
    const guard = { canActivate: () => (arrived += 1) > 0 };
    await consumers.start(
      queue,
      controller,
      { store: memoryStore() },
      { configure: (app) => app.useGlobalGuards(guard) },
    );
    await emitOrder(queue, 1);
    await until(() => arrived >= 2);
    gate.open();
    await queue.isEmpty();
    expect(runs).toBe(2);
  });
});
