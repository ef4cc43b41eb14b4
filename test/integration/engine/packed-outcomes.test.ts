import { randomBytes } from 'node:crypto';
import { afterEach, describe, expect, it } from '@jest/globals';
import { staticKeys, type IdempotencyStore } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import {
  failure,
  newRequest,
  outcomeAsText,
  outcomeOf,
  success,
  withOptions,
  Worker,
} from '../../support/engine/worker.js';
import { nodeClock, type OperationRequest, type OwnerToken } from '../../support/internals/core.js';
import { OutcomeTransform } from '../../support/internals/payload.js';
import { lostReply, unavailable, type Fault } from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { until } from '../../support/waiting/until.js';

const OWNER = { token: 't'.repeat(22) as OwnerToken, retentionMs: 60_000 };
const KEYS = staticKeys({ current: 'k1', keys: { k1: randomBytes(32) } });
const OTHER_KEYS = staticKeys({ current: 'k2', keys: { k2: randomBytes(32) } });

/** Counts what is packed and unpacked, and packs once its gate is open. */
class Watched extends OutcomeTransform {
  readonly gate = new Gate();
  packed = 0;
  unpacked = 0;

  override async pack(...args: Parameters<OutcomeTransform['pack']>) {
    this.packed += 1;
    await this.gate.pass();
    return super.pack(...args);
  }

  override unpack(...args: Parameters<OutcomeTransform['unpack']>) {
    this.unpacked += 1;
    return super.unpack(...args);
  }
}

class Failing extends OutcomeTransform {
  override pack(): never {
    throw new RangeError('no memory');
  }
}

const stores: IdempotencyStore[] = [];
afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
});

function newStore(): IdempotencyStore {
  const store = memoryStore();
  stores.push(store);
  return store;
}

async function workerOn(store: IdempotencyStore, secrets = KEYS) {
  const outcomes = new Watched(secrets, nodeClock);
  outcomes.gate.open();
  await outcomes.open();
  return { outcomes, worker: new Worker(store, {}, nodeClock, outcomes) };
}

async function storedOf(store: IdempotencyStore, { recordKey }: OperationRequest) {
  const record = await store.inspect(recordKey, { timeoutMs: 1_000 });
  return record?.outcome;
}

const replies =
  (reply: object): Fault =>
  () =>
    Promise.resolve(reply as never);

describe('An outcome that is packed', () => {
  it('is so once for an attempt, however often it is sent', async () => {
    const store = newStore();
    const { worker, outcomes } = await workerOn(store);
    const request = newRequest();
    const attempt = await worker.run(request);
    worker.store.next('complete', lostReply);
    expect(await attempt.complete(success('A'))).toEqual({ kind: 'own' });
    expect(worker.store.sent.filter(({ step }) => step === 'complete')).toHaveLength(2);
    expect(outcomes.packed).toBe(1);
    expect((await storedOf(store, request))?.header).toBe('2');
    const replay = outcomeAsText(await worker.begin(request));
    expect(replay).toMatchObject({ kind: 'replay', state: 'completed', outcome: 'A' });
  });

  it('is stored with the lease extended meanwhile', async () => {
    const store = newStore();
    const { worker, outcomes } = await workerOn(store);
    outcomes.gate.close();
    const attempt = await worker.run(newRequest({ lease: { duration: '100ms' } }));
    const completed = attempt.complete(success('A'));
    await until(() => worker.store.sent.filter(({ step }) => step === 'extend').length >= 4);
    outcomes.gate.open();
    expect(await completed).toEqual({ kind: 'own' });
    expect(worker.reported).toEqual(['acquired', 'completed']);
  });

  it.each<[string, (left: number) => Fault, string]>([
    ['is over', () => replies({ retentionLeftMs: 1_000 }), 'over'],
    ['is not over', () => replies({ retentionLeftMs: 1_001 }), 'there'],
    ['is not known to be there', () => unavailable, 'over'],
  ])('of another attempt, whose body %s by the store', async (_, left, expected) => {
    const { worker, outcomes } = await workerOn(newStore());
    const request = newRequest({ outcome: { retention: '60s', bodyRetention: '59s' } });
    const attempt = await worker.run(request);
    const { recordKey, fingerprint, options } = request;
    const binding = { recordKey, fingerprint, state: 'completed' } as const;
    const outcome = await outcomes.pack(outcomeOf('theirs'), binding, options.outcome, OWNER);
    worker.store.next('complete', replies({ kind: 'superseded', state: 'completed', outcome }));
    worker.store.next('inspect', left(0));
    const settlement = await attempt.complete(success('own'));
    const body = expected === 'there' ? 'theirs' : '';
    expect(outcomeAsText(settlement)).toEqual({ kind: 'other', state: 'completed', outcome: body });
  });

  it('is unpacked once for all duplicates that wait for it', async () => {
    const store = newStore();
    const { worker, outcomes } = await workerOn(store);
    const request = newRequest({ duplicates: 'wait' });
    const attempt = await worker.run(request);
    const duplicates = Array.from({ length: 5 }, () => worker.begin(request));
    await until(() => [...worker.engine.waiting()].length === 5);
    await attempt.complete(failure('A'));
    for (const decision of await Promise.all(duplicates)) {
      expect(outcomeAsText(decision)).toMatchObject({ state: 'failed', outcome: 'A' });
    }
    expect(outcomes.unpacked).toBe(1);
  });

  it('of another attempt is what the caller gets', async () => {
    const { worker, outcomes } = await workerOn(newStore());
    const request = newRequest();
    const attempt = await worker.run(request);
    const { recordKey, fingerprint, options } = request;
    const binding = { recordKey, fingerprint, state: 'completed' } as const;
    const outcome = await outcomes.pack(outcomeOf('theirs'), binding, options.outcome, OWNER);
    worker.store.next('complete', replies({ kind: 'superseded', state: 'completed', outcome }));
    const settlement = await attempt.complete(success('own'));
    expect(outcomeAsText(settlement)).toEqual({
      kind: 'other',
      state: 'completed',
      outcome: 'theirs',
    });
  });

  it.each([
    ['without its key', 'outcome_unavailable', 'key', 'completed'],
    ['as that of another state', 'outcome_unreadable', 'integrity', 'failed'],
  ] as const)('%s rejects the caller, and every duplicate', async (_, rejection, reason, state) => {
    const store = newStore();
    const { outcomes } = await workerOn(store);
    const { worker } = await workerOn(store, reason === 'key' ? OTHER_KEYS : KEYS);
    const request = newRequest();
    const { recordKey, fingerprint, options } = request;
    const binding = { recordKey, fingerprint, state: 'completed' } as const;
    const outcome = await outcomes.pack(outcomeOf('theirs'), binding, options.outcome, OWNER);
    const attempt = await worker.run(request);
    worker.store.next('complete', replies({ kind: 'superseded', state, outcome }));
    expect(await attempt.complete(success('own'))).toEqual({ kind: rejection });
    worker.store.next('begin', replies({ kind: state, outcome, retentionLeftMs: 1 }));
    expect(await worker.begin(request)).toMatchObject({ kind: 'reject', reason: rejection });
    expect(worker.eventsOf('outcome_unreadable')).toEqual([
      expect.objectContaining({ recordKey, reason }),
      expect.objectContaining({ recordKey, reason }),
    ]);
  });

  it('is kept as done, if that fails: the operation has run, and does not run again', async () => {
    const store = newStore();
    const outcomes = new Failing(KEYS, nodeClock);
    await outcomes.open();
    const worker = new Worker(store, {}, nodeClock, outcomes);
    const request = newRequest();
    const attempt = await worker.run(request);
    expect(await attempt.complete(success('A'))).toEqual({ kind: 'own' });
    expect(await storedOf(store, request)).toMatchObject({ header: '-', body: Buffer.of() });
    expect(worker.reported).toEqual(['acquired', 'pack_failed', 'completed']);
    expect(worker.eventsOf('pack_failed')).toMatchObject([{ errorType: 'RangeError' }]);
    expect(await worker.begin(request)).toMatchObject({ kind: 'replay' });
  });

  it('is waited for by no response without protection', async () => {
    const store = newStore();
    const { worker, outcomes } = await workerOn(store);
    outcomes.gate.close();
    const request = newRequest({ storeErrors: { whenUnavailable: 'execute' } });
    worker.store.next('begin', unavailable);
    const attempt = await worker.run(request);
    expect(await attempt.complete(success('A'))).toEqual({ kind: 'own' });
    expect(await storedOf(store, request)).toBeUndefined();
    outcomes.gate.open();
    await until(() => worker.reported.includes('completed'));
    expect((await storedOf(store, request))?.header).toBe('2');
  });

  it('is none where its options say so, and nothing is asked of it', async () => {
    const store = newStore();
    const { worker, outcomes } = await workerOn(store);
    const request = withOptions(newRequest(), { outcome: { encryption: false } });
    await (await worker.run(request)).complete(success('A'));
    expect(outcomes.packed).toBe(0);
    expect(await storedOf(store, request)).toMatchObject(outcomeOf('A'));
    await worker.begin(request);
    expect(outcomes.unpacked).toBe(0);
  });
});
