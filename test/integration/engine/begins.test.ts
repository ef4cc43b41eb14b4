import { describe, expect, it } from '@jest/globals';
import { StoreOutcomeUnknownError } from 'nestjs-idempotency';
import type { Begin } from 'nestjs-idempotency/store';
import {
  heldReply,
  heldRequest,
  lostReply,
  lostRequest,
  misconfigured,
  unavailable,
  type Fault,
} from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { inFakeTime } from './support/in-fake-time.js';
import { outcomeAsText, newRequest, success, type Worker } from '../../support/engine/worker.js';

const HOUR_MS = 3_600_000;
const COMMAND_TIMEOUT_MS = 500;
const STORE_UNAVAILABLE = { kind: 'reject', reason: 'store_unavailable' };

const time = inFakeTime();

const notAfters = (worker: Worker) =>
  worker.store.sentOf('begin').map(({ command }) => (command as Begin).notAfter);

describe('the limit of a begin', () => {
  it('is 0 until the store’s clock is known, then that clock plus commandTimeoutMs', async () => {
    const worker = time.worker();
    time.skewStore(HOUR_MS);
    await worker.run(newRequest());
    await time.pass(1_234);
    await worker.run(newRequest());
    const serverNow = time.clock.wallTime() + HOUR_MS;
    expect(notAfters(worker)).toEqual([0, serverNow + COMMAND_TIMEOUT_MS]);
  });

  it('does not depend on the wall clock of the process', async () => {
    const worker = time.worker();
    await worker.run(newRequest());
    const limit = time.clock.wallTime() + COMMAND_TIMEOUT_MS;
    time.clock.stepWallTime(-HOUR_MS);
    time.skewStore(HOUR_MS);
    await worker.run(newRequest());
    expect(notAfters(worker)[1]).toBe(limit);
  });

  it('is recomputed once, with the same token, when the server’s clock jumps past it', async () => {
    const worker = time.worker();
    await worker.run(newRequest());
    time.skewStore(HOUR_MS);
    const attempt = await worker.run(newRequest());
    expect(attempt).toMatchObject({ number: 1, isTakeover: false });
    const [, late, again] = worker.store.sentOf('begin');
    expect(worker.store.sentOf('begin')).toHaveLength(3);
    expect(again!.token).toBe(late!.token);
    expect(notAfters(worker)[2]).toBe(time.clock.wallTime() + HOUR_MS + COMMAND_TIMEOUT_MS);
    await worker.run(newRequest());
    expect(worker.store.sentOf('begin')).toHaveLength(4);
  });

  it('counts from when begin is sent again, however long the first reply took', async () => {
    const worker = time.worker();
    await worker.run(newRequest());
    const gate = Gate.closed();
    time.skewStore(HOUR_MS);
    worker.store.next('begin', heldReply(gate));
    const begun = worker.run(newRequest());
    await time.pass(100);
    const serverNow = time.clock.wallTime() - 100 + HOUR_MS;
    gate.open();
    await begun;
    expect(notAfters(worker)[2]).toBe(serverNow + COMMAND_TIMEOUT_MS);
  });

  it('rejects the request when it is passed twice in a row', async () => {
    const worker = time.worker();
    await worker.run(newRequest());
    const jump: Fault = (execute) => {
      time.skewStore(HOUR_MS);
      return execute();
    };
    worker.store.next('begin', jump, jump);
    const request = newRequest();
    expect(await worker.begin(request)).toEqual(STORE_UNAVAILABLE);
    expect(worker.store.sentOf('begin')).toHaveLength(3);
    expect(await time.worker().run(request)).toMatchObject({ number: 1 });
  });

  it('has no effect when the server’s clock stepped back', async () => {
    const worker = time.worker();
    await worker.run(newRequest());
    time.skewStore(-HOUR_MS);
    expect(await worker.run(newRequest())).toMatchObject({ number: 1 });
    expect(worker.store.sentOf('begin')).toHaveLength(2);
  });

  it('prevents a delayed command from acquiring after its caller has given up', async () => {
    const worker = time.worker();
    await worker.run(newRequest());
    const gate = Gate.closed();
    let delayed: Promise<unknown> | undefined;
    // The caller gives up on the reply while the command is still in flight.
    const stuck: Fault = async (execute) => {
      delayed = heldRequest(gate)(execute);
      await time.pass(COMMAND_TIMEOUT_MS);
      throw new StoreOutcomeUnknownError('planned: no reply in time');
    };
    worker.store.next('begin', stuck);
    const request = newRequest();
    expect(await worker.begin(request)).toEqual(STORE_UNAVAILABLE);
    await time.pass(1);
    gate.open();
    expect(await delayed).toMatchObject({ kind: 'late' });
    expect(await time.worker().run(request)).toMatchObject({ number: 1 });
  });
});

describe('a begin with an unknown result', () => {
  it.each([
    ['was executed', lostReply, 2],
    ['was not executed', lostRequest, 1],
  ])('that %s is released, and its key is free at once', async (_, fault, number) => {
    const worker = time.worker();
    const request = newRequest();
    worker.store.next('begin', fault);
    expect(await worker.begin(request)).toEqual(STORE_UNAVAILABLE);
    await time.pass(0);
    const [begun] = worker.store.sentOf('begin');
    expect(worker.store.sentOf('release')).toMatchObject([{ token: begun!.token, fence: 0 }]);
    expect(worker.events).toMatchObject([
      { type: 'store_unavailable', error: { code: 'idempotency_store_outcome_unknown' } },
      { type: 'rejected', reason: 'store_unavailable' },
    ]);
    expect(await time.worker().run(request)).toMatchObject({ number, isTakeover: false });
  });

  it('does not make its caller wait for the release', async () => {
    const worker = time.worker();
    const gate = Gate.closed();
    worker.store.next('begin', lostReply);
    worker.store.next('release', heldRequest(gate));
    expect(await worker.begin(newRequest())).toEqual(STORE_UNAVAILABLE);
    gate.open();
  });

  it('blocks the key for at most its lease when the release is lost as well', async () => {
    const worker = time.worker();
    const request = newRequest({ lease: { durationMs: 1_000 } });
    worker.store.next('begin', lostReply);
    worker.store.next('release', unavailable);
    expect(await worker.begin(request)).toEqual(STORE_UNAVAILABLE);
    const other = time.worker();
    expect(await other.begin(request)).toEqual({ kind: 'reject', reason: 'in_progress' });
    await time.pass(1_000);
    expect(await other.run(request)).toMatchObject({ number: 2, isTakeover: true });
  });

  it('never changes the record of another attempt', async () => {
    const owner = time.worker();
    const [running, finished] = [newRequest(), newRequest()];
    const attempt = await owner.run(running);
    await (await owner.run(finished)).complete(success('paid'));
    const worker = time.worker();
    worker.store.always(lostReply, 'begin');
    for (const request of [running, finished]) {
      expect(await worker.begin(request)).toEqual(STORE_UNAVAILABLE);
    }
    await time.pass(0);
    expect(worker.store.sentOf('release')).toHaveLength(2);
    expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
    expect(owner.reported).not.toContain('superseded');
    for (const request of [running, finished]) {
      expect(outcomeAsText(await owner.begin(request))).toMatchObject({ outcome: 'paid' });
    }
  });
});

describe('a begin that was not executed', () => {
  it('rejects the request and sends no release', async () => {
    const worker = time.worker();
    worker.store.next('begin', unavailable);
    expect(await worker.begin(newRequest())).toEqual(STORE_UNAVAILABLE);
    await time.pass(0);
    expect(worker.store.sent.map(({ step }) => step)).toEqual(['begin']);
    expect(worker.reported).toEqual(['store_unavailable', 'rejected']);
  });

  it('emits the configuration error in its event', async () => {
    const worker = time.worker();
    worker.store.next('begin', misconfigured);
    expect(await worker.begin(newRequest())).toEqual(STORE_UNAVAILABLE);
    expect(worker.events[0]).toMatchObject({
      type: 'store_unavailable',
      error: { code: 'idempotency_store_misconfigured' },
    });
  });
});

describe('a begin with a late reply', () => {
  const LEASE_MS = 900;
  const OPTIONS = { lease: { durationMs: LEASE_MS }, storeErrors: { commandTimeoutMs: 10_000 } };

  /** Begins, and delays the reply or the request by `ms`. */
  async function delayed(worker: Worker, ms: number, held: (gate: Gate) => Fault) {
    const gate = Gate.closed();
    worker.store.next('begin', held(gate));
    const request = newRequest(OPTIONS);
    const decision = worker.begin(request);
    await time.pass(ms);
    gate.open();
    return { request, decision: await decision };
  }

  it('runs without an extension in the first two thirds of its lease', async () => {
    const worker = time.worker();
    const { decision } = await delayed(worker, (2 / 3) * LEASE_MS - 1, heldReply);
    expect(decision.kind).toBe('run');
    expect(worker.store.sent.map(({ step }) => step)).toEqual(['begin']);
  });

  it('extends its lease before it runs in the last third of it', async () => {
    const worker = time.worker();
    const { decision, request } = await delayed(worker, (2 / 3) * LEASE_MS, heldReply);
    expect(decision.kind).toBe('run');
    expect(worker.store.sentOf('extend')[0]).toMatchObject({ command: { leaseMs: LEASE_MS } });
    await time.pass(LEASE_MS - 1);
    expect(await time.worker().begin(request)).toEqual({ kind: 'reject', reason: 'in_progress' });
  });

  it.each([
    ['cannot be extended', unavailable],
    ['is extended but the reply is lost', lostReply],
  ])('does not run when its lease %s, and the key is free', async (_, fault) => {
    const worker = time.worker();
    worker.store.next('extend', fault);
    const { decision, request } = await delayed(worker, (2 / 3) * LEASE_MS, heldReply);
    expect(decision).toEqual(STORE_UNAVAILABLE);
    expect(worker.reported).toEqual(['acquired', 'released', 'store_unavailable', 'rejected']);
    expect(await time.worker().run(request)).toMatchObject({ number: 2, isTakeover: false });
  });

  it('does not run when its lease has expired, even without a takeover', async () => {
    const worker = time.worker();
    const { decision, request } = await delayed(worker, LEASE_MS, heldReply);
    expect(decision).toEqual(STORE_UNAVAILABLE);
    expect(await time.worker().run(request)).toMatchObject({ number: 2, isTakeover: false });
  });

  it('does not run after a takeover, and does not disturb the new owner', async () => {
    const worker = time.worker();
    const gate = Gate.closed();
    worker.store.next('begin', heldReply(gate));
    const request = newRequest(OPTIONS);
    const decision = worker.begin(request);
    await time.pass(LEASE_MS);
    const taker = await time.worker().run(request);
    gate.open();
    expect(await decision).toEqual(STORE_UNAVAILABLE);
    expect(await taker.complete(success('paid'))).toEqual({ kind: 'own' });
  });

  it('measures its lease from the extension', async () => {
    const worker = time.worker();
    // The request took longer than a lease, so the lease at the store is a fresh one.
    const { decision } = await delayed(worker, 2 * LEASE_MS, heldRequest);
    expect(worker.store.sentOf('extend')).toHaveLength(1);
    if (decision.kind !== 'run') throw new Error('a begin with an extended lease must run');
    const { signal } = decision.attempt;
    await time.pass(LEASE_MS / 3);
    expect(signal.aborted).toBe(false);
    expect(worker.reported).toEqual(['acquired']);
    expect(await decision.attempt.complete(success('paid'))).toEqual({ kind: 'own' });
  });
});

describe('a begin of an operation that can be recovered', () => {
  it('stores operation, scope and key in the record for the reconciler', async () => {
    const worker = time.worker();
    const request = newRequest({ lease: { onTakeover: () => 'run' } });
    await worker.run(request);
    const record = await worker.store.inspect(request.recordKey, { timeoutMs: COMMAND_TIMEOUT_MS });
    const origin = Buffer.from(record?.origin ?? '', 'base64url').toString();
    expect(JSON.parse(origin)).toEqual([request.operation, request.scope, request.key]);
  });

  it.each(['run', 'reject'] as const)(
    'stores no origin with onTakeover: %j',
    async (onTakeover) => {
      const worker = time.worker();
      const request = newRequest({ lease: { onTakeover } });
      await worker.run(request);
      const record = await worker.store.inspect(request.recordKey, {
        timeoutMs: COMMAND_TIMEOUT_MS,
      });
      expect(record).toMatchObject({ state: 'in_progress' });
      expect(record?.origin).toBeUndefined();
    },
  );
});

describe('a begin after a released takeover', () => {
  it('is also a takeover: the outcome of the first attempt is still unknown', async () => {
    const [first, second, third] = [time.worker(), time.worker(), time.worker()];
    const request = newRequest({ lease: { durationMs: 3_000 } });
    await first.run(request);
    first.store.always(unavailable, 'extend');
    await time.pass(3_100);
    await (await second.run(request)).release();
    expect(await third.run(request)).toMatchObject({ number: 3, isTakeover: true });
    expect(third.reported).toEqual(['takeover']);
  });
});
