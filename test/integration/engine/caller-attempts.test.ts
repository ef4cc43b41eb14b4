import { describe, expect, it } from '@jest/globals';
import {
  executionScope,
  type Attempt,
  type ProtocolOptions,
} from '../../support/internals/core.js';
import { unavailable } from '../../support/stores/faulty-store.js';
import { newRequest, outcomeAsText, success } from '../../support/engine/worker.js';
import { inFakeTime } from './support/in-fake-time.js';

const TOO_MANY = { kind: 'reject', reason: 'too_many_attempts' };
const LEASE_MS = 1_000;

const time = inFakeTime();

/** A worker that runs two operations of each caller at a time. */
const limited = () => time.worker({ maxAttemptsPerCaller: 2 });

/** A request of a caller of HTTP. */
function requestOf(scope: readonly string[], options: ProtocolOptions = {}) {
  const transport = 'http' as const;
  return { ...newRequest({ lease: { durationMs: LEASE_MS } }, options), scope, transport };
}

describe('With limits.maxAttemptsPerCaller', () => {
  it('one more operation of a caller does not run, and its key is free; another caller runs', async () => {
    const worker = limited();
    await worker.run(requestOf(['mallory']));
    const second = await worker.run(requestOf(['mallory']));
    const third = requestOf(['mallory']);
    expect(await worker.begin(third)).toEqual(TOO_MANY);
    expect(worker.events.at(-1)).toMatchObject({ type: 'rejected', reason: 'too_many_attempts' });
    expect(worker.eventsOf('ended')).toMatchObject([{ how: 'not_started' }]);
    await worker.run(requestOf(['alice']));
    await second.complete(success('paid'));
    expect(await worker.run(third)).toMatchObject({ isTakeover: false });
    expect(await worker.begin(requestOf(['mallory']))).toEqual(TOO_MANY);
  });

  it.each<[string, (attempt: Attempt) => unknown]>([
    ['its outcome is stored', (attempt) => attempt.complete(success('paid'))],
    ['its key is released', (attempt) => attempt.release()],
  ])('the place of an operation is free once %s, and counts once', async (_, end) => {
    const worker = limited();
    for (let round = 0; round < 5; round += 1) {
      const attempts = [
        await worker.run(requestOf(['alice'])),
        await worker.run(requestOf(['alice'])),
      ];
      for (let more = 0; more < 3; more += 1) {
        expect(await worker.begin(requestOf(['alice']))).toEqual(TOO_MANY);
      }
      for (const attempt of attempts) await end(attempt);
    }
  });

  it('a caller at the limit still gets replays, and rejections of duplicates', async () => {
    const worker = limited();
    const done = requestOf(['alice']);
    await (await worker.run(done)).complete(success('paid'));
    const running = requestOf(['alice']);
    await worker.run(running);
    await worker.run(requestOf(['alice']));
    expect(outcomeAsText(await worker.begin(done))).toMatchObject({ outcome: 'paid' });
    expect(await worker.begin(running)).toMatchObject({ reason: 'in_progress' });
  });

  it('callers without a scope, and messages without a tenant, are not counted', async () => {
    const worker = time.worker({ maxAttemptsPerCaller: 1 });
    for (let times = 0; times < 3; times += 1) {
      await worker.run(requestOf([]));
      await worker.run({ ...requestOf(['billing']), transport: 'message' });
    }
    const ofTenant = () => ({ ...requestOf(['billing', 'acme']), transport: 'message' as const });
    await worker.run(ofTenant());
    expect(await worker.begin(ofTenant())).toEqual(TOO_MANY);
  });

  it('what an operation calls belongs to it', async () => {
    const worker = time.worker({ maxAttemptsPerCaller: 1 });
    const outer = await worker.run(requestOf(['alice']));
    const inner = await executionScope.run({ context: {} as never }, () =>
      worker.run(requestOf(['alice'])),
    );
    await inner.complete(success('inner'));
    expect(await worker.begin(requestOf(['alice']))).toEqual(TOO_MANY);
    await outer.complete(success('outer'));
    await worker.run(requestOf(['alice']));
  });

  it('a takeover runs, and takes a place', async () => {
    const worker = time.worker({ maxAttemptsPerCaller: 1 });
    const dead = time.worker();
    dead.store.always(unavailable, 'extend');
    const abandoned = requestOf(['alice']);
    await dead.run(abandoned);
    const running = await worker.run(requestOf(['alice']));
    await time.pass(LEASE_MS + 1);
    const takeover = await worker.run(abandoned);
    expect(takeover.isTakeover).toBe(true);
    await running.complete(success('paid'));
    expect(await worker.begin(requestOf(['alice']))).toEqual(TOO_MANY);
    await takeover.complete(success('paid'));
    await worker.run(requestOf(['alice']));
  });

  it('a duplicate that has waited does not run either', async () => {
    const worker = time.worker({ maxAttemptsPerCaller: 1 });
    const waiting = requestOf(['alice'], { duplicates: 'wait' });
    const elsewhere = await time.worker().run(waiting);
    const decided = worker.begin(waiting);
    await time.pass(100);
    await worker.run(requestOf(['alice']));
    await elsewhere.release();
    await time.pass(500);
    expect(await decided).toEqual(TOO_MANY);
  });

  it('an operation that would run without protection does not run either', async () => {
    const worker = time.worker({ maxAttemptsPerCaller: 1 });
    worker.store.always(unavailable, 'begin', 'release');
    const unlessAvailable = () =>
      requestOf(['alice'], { storeErrors: { whenUnavailable: 'execute' } });
    const first = await worker.run(unlessAvailable());
    expect(await worker.begin(unlessAvailable())).toEqual(TOO_MANY);
    expect(worker.eventsOf('unprotected')).toHaveLength(1);
    worker.store.heal();
    await first.complete(success('paid'));
    await time.pass(LEASE_MS);
    await worker.run(requestOf(['alice']));
  });
});
