import { describe, expect, it } from '@jest/globals';
import {
  heldReply,
  heldRequest,
  lostReply,
  unavailable,
} from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { inFakeTime } from './support/in-fake-time.js';
import {
  outcomeAsText,
  newRequest,
  success,
  withOptions,
  type Worker,
} from '../../support/engine/worker.js';

const LEASE_MS = 3_000;
const MAX_EXECUTION_MS = 10_000;
const OPTIONS = { lease: { durationMs: LEASE_MS, maxExecutionMs: MAX_EXECUTION_MS } } as const;
const IN_PROGRESS = { kind: 'reject', reason: 'in_progress' };
const OUTCOME_UNKNOWN = { kind: 'reject', reason: 'outcome_unknown' };

const time = inFakeTime();

/** No heartbeat gets through, as when the event loop is blocked. */
function losesItsLeases(): Worker {
  const worker = time.worker();
  worker.store.always(unavailable, 'extend');
  return worker;
}

describe('An attempt whose lease ran out, in the process that runs it,', () => {
  it('stays in progress until its hard deadline, then loses its key', async () => {
    const worker = losesItsLeases();
    const request = newRequest(OPTIONS);
    await worker.run(request);
    await time.pass(LEASE_MS);
    expect(await worker.begin(request)).toEqual(IN_PROGRESS);
    await time.pass(MAX_EXECUTION_MS - LEASE_MS - 1);
    expect(await worker.begin(request)).toEqual(IN_PROGRESS);
    await time.pass(1);
    expect(await worker.run(request)).toMatchObject({ number: 2, isTakeover: true });
  });

  it('can complete, and is replayed', async () => {
    const worker = losesItsLeases();
    const request = newRequest(OPTIONS);
    const attempt = await worker.run(request);
    await time.pass(LEASE_MS);
    await worker.begin(request);
    expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
    expect(outcomeAsText(await worker.begin(request))).toMatchObject({ outcome: 'paid' });
  });

  it('is not taken over by a begin sent before it, which was late and is sent again', async () => {
    const worker = losesItsLeases();
    await worker.run(newRequest());
    const request = newRequest(OPTIONS);
    const gate = Gate.closed();
    worker.store.next('begin', heldRequest(gate));
    const begun = worker.begin(request);
    const attempt = await worker.run(request);
    // Ends the lease, and passes the limit of the begin on its way.
    time.skewStore(LEASE_MS);
    gate.open();
    expect(await begun).toEqual(IN_PROGRESS);
    expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
    expect(worker.reported).not.toContain('takeover');
  });

  it('keeps waiting duplicates waiting for its outcome', async () => {
    const worker = losesItsLeases();
    const request = newRequest(OPTIONS, { duplicates: 'wait' });
    const attempt = await worker.run(request);
    await time.pass(LEASE_MS);
    const waiting = worker.begin(request);
    await time.pass(1_000);
    await attempt.complete(success('paid'));
    await time.pass(250);
    expect(outcomeAsText(await waiting)).toMatchObject({ kind: 'replay', outcome: 'paid' });
    expect(worker.reported).not.toContain('takeover');
  });

  it('is in progress while its outcome is still being saved', async () => {
    const worker = losesItsLeases();
    const request = newRequest(OPTIONS, { storeErrors: { saveTimeoutMs: 1 } });
    const attempt = await worker.run(request);
    worker.store.always(unavailable, 'complete');
    const settled = attempt.complete(success('paid'));
    await time.pass(LEASE_MS);
    expect(await settled).toEqual({ kind: 'own' });
    expect(await worker.begin(request)).toEqual(IN_PROGRESS);
    worker.store.heal();
    await time.pass(1_000);
    expect(outcomeAsText(await worker.begin(request))).toMatchObject({ outcome: 'paid' });
  });

  it('is taken over by a duplicate with a recovery once its operation is over', async () => {
    const worker = losesItsLeases();
    const request = newRequest(OPTIONS, {
      storeErrors: { saveTimeoutMs: 1 },
      lease: { onTakeover: () => 'run' },
    });
    const attempt = await worker.run(request);
    await time.pass(LEASE_MS);
    expect(await worker.begin(request)).toEqual(IN_PROGRESS);
    worker.store.always(unavailable, 'complete');
    const settled = attempt.complete(success('paid'));
    await time.pass(1);
    await settled;
    expect(await worker.run(request)).toMatchObject({ number: 2, isTakeover: true });
  });

  it("has an unknown outcome with onTakeover: 'reject' only past its hard deadline", async () => {
    const worker = losesItsLeases();
    const request = newRequest(OPTIONS, { lease: { onTakeover: 'reject' } });
    await worker.run(request);
    await time.pass(LEASE_MS);
    expect(await worker.begin(request)).toEqual(IN_PROGRESS);
    expect(await time.worker().begin(request)).toEqual(OUTCOME_UNKNOWN);
    await time.pass(MAX_EXECUTION_MS - LEASE_MS);
    expect(await worker.begin(request)).toEqual(OUTCOME_UNKNOWN);
  });

  it('stays in progress when the result of its begin was unknown', async () => {
    const worker = time.worker();
    const request = newRequest(OPTIONS, { storeErrors: { whenUnavailable: 'execute' } });
    worker.store.next('begin', lostReply);
    const attempt = await worker.run(request);
    await time.pass(LEASE_MS);
    expect(await worker.begin(request)).toEqual(IN_PROGRESS);
    await attempt.complete(success('paid'));
    await time.pass(0);
    expect(outcomeAsText(await worker.begin(request))).toMatchObject({ outcome: 'paid' });
  });

  it('is taken over by another process', async () => {
    const request = newRequest(OPTIONS);
    await losesItsLeases().run(request);
    await time.pass(LEASE_MS);
    expect(await time.worker().run(request)).toMatchObject({ isTakeover: true });
  });

  it('loses the key once another process that took it over has died', async () => {
    const worker = losesItsLeases();
    const dead = losesItsLeases();
    const request = newRequest(OPTIONS);
    await worker.run(request);
    await time.pass(LEASE_MS);
    await dead.run(request);
    expect(await worker.begin(request)).toEqual(IN_PROGRESS);
    await time.pass(LEASE_MS);
    expect(await worker.run(request)).toMatchObject({ number: 3, isTakeover: true });
    const rejecting = withOptions(newRequest(OPTIONS), { lease: { onTakeover: 'reject' } });
    await worker.run(rejecting);
    await time.pass(LEASE_MS);
    await dead.run(withOptions(rejecting, { lease: { onTakeover: 'run' } }));
    await time.pass(LEASE_MS);
    expect(await worker.begin(rejecting)).toEqual(OUTCOME_UNKNOWN);
  });

  it('has no effect once it has ended', async () => {
    const worker = time.worker();
    const request = newRequest(OPTIONS);
    await (await worker.run(request)).release();
    await losesItsLeases().run(request);
    await time.pass(LEASE_MS);
    const sent = worker.store.sentOf('begin').length;
    expect(await worker.run(request)).toMatchObject({ number: 3, isTakeover: true });
    expect(worker.store.sentOf('begin')).toHaveLength(sent + 1);
  });
});

describe('A begin whose reply has not been read', () => {
  it('is not taken over by a duplicate of the same process', async () => {
    const worker = time.worker();
    const gate = Gate.closed();
    const request = newRequest(OPTIONS);
    worker.store.next('begin', heldReply(gate));
    const first = worker.begin(request);
    await time.pass(LEASE_MS);
    expect(await worker.begin(request)).toEqual(IN_PROGRESS);
    gate.open();
    await first;
    expect(worker.reported).not.toContain('takeover');
  });

  it.each([
    ['run', 'takeover'],
    ['reject', 'outcome_unknown'],
  ] as const)(
    'does not affect a duplicate that finds the record of a dead process: %s',
    async (onTakeover, said) => {
      const worker = time.worker();
      const gate = Gate.closed();
      const request = newRequest(OPTIONS, { lease: { onTakeover } });
      await losesItsLeases().run(withOptions(request, { lease: { onTakeover: 'run' } }));
      await time.pass(LEASE_MS);
      worker.store.next('begin', heldRequest(gate));
      const onItsWay = worker.begin(request);
      const duplicate = await worker.begin(request);
      expect(duplicate.kind === 'run' ? 'takeover' : outcomeAsText(duplicate).reason).toBe(said);
      gate.open();
      expect(await onItsWay).toMatchObject({
        reason: onTakeover === 'run' ? 'in_progress' : 'outcome_unknown',
      });
    },
  );

  it('does not block a duplicate when it fails', async () => {
    const worker = time.worker();
    const request = newRequest(OPTIONS);
    await losesItsLeases().run(request);
    await time.pass(LEASE_MS);
    worker.store.next('begin', unavailable);
    const [failed, duplicate] = await Promise.all([worker.begin(request), worker.begin(request)]);
    expect(failed).toEqual({ kind: 'reject', reason: 'store_unavailable' });
    expect(duplicate).toMatchObject({ kind: 'run', attempt: { isTakeover: true } });
  });

  it('is taken over only once when concurrent duplicates find the record of a dead process', async () => {
    const worker = time.worker();
    const request = newRequest(OPTIONS);
    await losesItsLeases().run(request);
    await time.pass(LEASE_MS);
    const decisions = await Promise.all(Array.from({ length: 10 }, () => worker.begin(request)));
    expect(decisions.filter(({ kind }) => kind === 'run')).toHaveLength(1);
    expect(worker.reported.filter((type) => type === 'takeover')).toHaveLength(1);
  });
});
