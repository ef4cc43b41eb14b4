import { AsyncLocalStorage } from 'node:async_hooks';
import { expect, it } from '@jest/globals';
import { IdempotencyEvents, type IdempotencyStore } from 'nestjs-idempotency';
import { IdempotencyEngine, DEFAULT_LIMITS, Telemetries } from '../../support/internals/core.js';
import { FaultyStore } from '../../support/stores/faulty-store.js';
import { inFakeTime } from './support/in-fake-time.js';
import { newRequest, success } from '../../support/engine/worker.js';

const OPTIONS = {
  lease: { durationMs: 300, maxExecutionMs: 600 },
  outcome: { retentionMs: 10_000 },
};

const time = inFakeTime();

const engineOf = (store: IdempotencyStore, events: IdempotencyEvents, telemetry?: Telemetries) =>
  new IdempotencyEngine(store, events, DEFAULT_LIMITS, undefined, telemetry, time.clock);

it('a timer of an attempt runs in the async context of its begin', async () => {
  const request = new AsyncLocalStorage<string>();
  const events = new IdempotencyEvents();
  const engine = engineOf(time.store, events);
  const seen: string[] = [];
  const notes = (what: string) =>
    seen.push(`${what} in the context of ${String(request.getStore())}`);
  const requests = new Map(['A', 'B'].map((name) => [name, newRequest(OPTIONS)]));
  events.subscribe(({ type, recordKey }) => {
    const [name] =
      [...requests].find(([, operationRequest]) => operationRequest.recordKey === recordKey) ?? [];
    notes(`${type} of ${String(name)}`);
  });
  for (const [name, operationRequest] of requests) {
    await request.run(name, async () => {
      const decision = await engine.begin(operationRequest);
      if (decision.kind !== 'run') throw new Error(decision.kind);
      decision.attempt.signal.addEventListener('abort', () => notes(`abort of ${name}`));
    });
    await time.pass(20);
  }
  await time.pass(700);
  for (const name of requests.keys()) {
    const own = seen.filter((note) => note.includes(` of ${name} in`));
    expect(own).toEqual(
      expect.arrayContaining(
        ['slow_attempt', 'lease_lost', 'abort'].map(
          (what) => `${what} of ${name} in the context of ${name}`,
        ),
      ),
    );
    expect(own.filter((note) => !note.endsWith(` ${name}`))).toEqual([]);
  }
});

it('a subscriber is notified of attempts that began before it subscribed', async () => {
  const events = new IdempotencyEvents();
  const engine = engineOf(time.store, events);
  const seen: string[] = [];
  const begun = async () => {
    const request = newRequest(OPTIONS);
    const decision = engine.begin(request);
    await time.pass(0);
    return { request, decision: await decision };
  };
  const [completed, released] = [await begun(), await begun()];
  if (completed.decision.kind !== 'run' || released.decision.kind !== 'run') throw new Error();
  events.subscribe(({ type }) => seen.push(type));
  const settled = [
    completed.decision.attempt.complete(success('paid')),
    released.decision.attempt.release(),
  ];
  await time.pass(0);
  await Promise.all(settled);
  const again = engine.begin(completed.request);
  await time.pass(0);
  expect(await again).toMatchObject({ kind: 'replay' });
  expect(seen).toEqual(['completed', 'ended', 'released', 'ended', 'replayed']);
});

it('a duplicate that runs after another has left begins in its own async context', async () => {
  const context = new AsyncLocalStorage<string>();
  const events = new IdempotencyEvents();
  const store = new FaultyStore(time.store, time.clock);
  const traceOf = () => context.getStore();
  const telemetry = new Telemetries({ start: () => () => undefined, traceOf }, events);
  const engine = engineOf(store, events, telemetry);
  const seen: string[] = [];
  events.subscribe(({ type }) => seen.push(`${type} in ${String(context.getStore())}`));
  const request = newRequest({
    ...OPTIONS,
    lease: { durationMs: 60_000 },
    duplicates: { mode: 'wait', timeoutMs: 10_000 },
  });
  const begin = async (name: string, clientSignal?: AbortSignal) => {
    const beginning = context.run(name, () => engine.begin({ ...request, clientSignal }));
    await time.pass(50);
    return beginning;
  };
  const first = await begin('first');
  if (first.kind !== 'run') throw new Error(first.kind);
  const leaving = new AbortController();
  const leaver = begin('leaver', leaving.signal);
  await time.pass(50);
  const waiter = begin('waiter');
  await time.pass(50);
  leaving.abort();
  expect(await leaver).toMatchObject({ kind: 'reject' });
  const { attempt } = first;
  await Promise.all([context.run('first', () => attempt.release()), time.pass(1_000)]);
  expect(await waiter).toMatchObject({ kind: 'run' });
  expect(seen).toEqual([
    'acquired in first',
    'waited in leaver',
    'rejected in leaver',
    'released in first',
    'ended in first',
    'acquired in waiter',
    'waited in waiter',
  ]);
  const notes = store.sentOf('begin').map(({ command }) => 'note' in command && command.note);
  expect([notes[0], notes.at(-1)]).toEqual(['first', 'waiter']);
});
