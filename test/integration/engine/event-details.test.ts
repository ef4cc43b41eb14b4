import { describe, expect, it } from '@jest/globals';
import type { OwnerToken } from 'nestjs-idempotency/store';
import {
  newRequest,
  outcomeOf,
  RETENTION_MS,
  withOtherPayload,
} from '../../support/engine/worker.js';
import { inFakeTime } from './support/in-fake-time.js';

const LEASE_MS = 3_000;
const NOTE = 'the-trace-of-another-process';

describe('the trace of an execution, which its record has as a note,', () => {
  const time = inFakeTime();

  /** An attempt of another process, which writes its trace. */
  async function traced() {
    const worker = time.worker();
    const request = newRequest({ lease: { durationMs: LEASE_MS } });
    const { recordKey, fingerprint } = request;
    const token = 'a-token-of-another-one' as OwnerToken;
    const reply = await worker.store.begin({
      ...{ recordKey, fingerprint, token, note: NOTE, leaseMs: LEASE_MS, maxExecutionMs: LEASE_MS },
      ...{ recordRetentionMs: RETENTION_MS, notAfter: 0, onExpiredLease: 'takeover' },
      timeoutMs: 100,
    });
    const fence = 'fence' in reply ? reply.fence : 0;
    return { worker, request, lease: { recordKey, token, fence } };
  }

  it('is in the event of a duplicate that is rejected', async () => {
    const { worker, request } = await traced();
    await worker.begin(request);
    await worker.begin(withOtherPayload(request));
    expect(worker.events).toMatchObject([
      { type: 'rejected', reason: 'in_progress', trace: NOTE },
      { type: 'rejected', reason: 'mismatch', trace: undefined },
    ]);
  });

  it('is in the event of a replay', async () => {
    const { worker, request, lease } = await traced();
    const { fingerprint } = request;
    const outcome = outcomeOf('paid');
    await worker.store.complete(lease, {
      ...{ state: 'completed', outcome, fingerprint, retentionMs: RETENTION_MS },
      ...{ whenGone: 'report', timeoutMs: 100 },
    });
    await worker.begin(request);
    expect(worker.events).toMatchObject([{ type: 'replayed', trace: NOTE }]);
  });

  it('is in the event of a takeover', async () => {
    const { worker, request } = await traced();
    await time.pass(LEASE_MS);
    await worker.run(request);
    expect(worker.events).toMatchObject([{ type: 'takeover', trace: NOTE }]);
  });
});

describe('the end of a wait is', () => {
  const time = inFakeTime();
  const options = { duplicates: { mode: 'wait', timeoutMs: 2_000 } } as const;

  async function waiting(signal?: AbortSignal) {
    const owner = time.worker();
    const worker = time.worker();
    const request = { ...newRequest(options), clientSignal: signal };
    const attempt = await owner.run(request);
    const decided = worker.begin(request);
    await time.pass(100);
    const end = async () => {
      await time.pass(3_000);
      await decided;
      return worker.eventsOf('waited').map(({ end: how }) => how);
    };
    return { worker, attempt, end };
  }

  it('outcome, for one that is stored', async () => {
    const { attempt, end } = await waiting();
    await attempt.complete({ state: 'completed', outcome: outcomeOf('paid'), retentionMs: 1_000 });
    expect(await end()).toEqual(['outcome']);
  });

  it('released, for a key that is free', async () => {
    const { attempt, end } = await waiting();
    await attempt.release();
    expect(await end()).toEqual(['released']);
  });

  it('timeout', async () => {
    const { end } = await waiting();
    expect(await end()).toEqual(['timeout']);
  });

  it('caller_gone', async () => {
    const caller = new AbortController();
    const { end } = await waiting(caller.signal);
    caller.abort();
    expect(await end()).toEqual(['caller_gone']);
  });

  it('shutdown', async () => {
    const { worker, end } = await waiting();
    void worker.engine.drain();
    expect(await end()).toEqual(['shutdown']);
  });
});
