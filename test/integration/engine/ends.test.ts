import { describe, expect, it } from '@jest/globals';
import type { CompleteReply, ReleaseReply } from 'nestjs-idempotency/store';
import { endsOf, wrongEnds, type AttemptEnd } from '../../support/engine/attempt-ends.js';
import { failure, newRequest, outcomeOf, success } from '../../support/engine/worker.js';
import type { Attempt } from '../../support/internals/core.js';
import { heldReply, unavailable, type Fault } from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { inFakeTime } from './support/in-fake-time.js';

const LEASE_MS = 3_000;
const MAX_EXECUTION_MS = 20_000;
const SAVE_TIMEOUT_MS = 1_000;

const OPTIONS = {
  lease: { durationMs: LEASE_MS, maxExecutionMs: MAX_EXECUTION_MS },
  duplicates: { timeoutMs: 500 },
  storeErrors: { saveTimeoutMs: SAVE_TIMEOUT_MS, whenUnavailable: 'execute' },
} as const;

/** What a reply has besides its kind. */
const DETAILS = { state: 'completed', outcome: outcomeOf('another'), fence: 9 } as const;

const COMPLETE_ENDS: Readonly<Record<CompleteReply['kind'], AttemptEnd>> = {
  ok: 'completed',
  ok_late: 'completed',
  already: 'completed',
  superseded: 'superseded',
  lost: 'diverged',
  restored: 'completed',
  gone: 'unsaved',
};

const RELEASE_ENDS: Readonly<Record<ReleaseReply['kind'], AttemptEnd>> = {
  ok: 'released',
  already: 'released',
  gone: 'released',
  lost: 'given_up',
  not_in_progress: 'given_up',
};

interface Way {
  readonly name: string;
  readonly how: AttemptEnd;
  /** What the store replies to complete and release. */
  readonly reply: Fault;
  readonly end: (attempt: Attempt) => unknown;
}

const replies =
  (reply: object): Fault =>
  <Reply>() =>
    Promise.resolve(reply as Reply);

const paid = (attempt: Attempt) => attempt.complete(success('paid'));
const declined = (attempt: Attempt) => attempt.complete(failure('declined'));
const release = (attempt: Attempt) => attempt.release();

/** The replies of the store, and none. */
const COMPLETIONS = Object.entries(COMPLETE_ENDS).flatMap(([kind, how]): Way[] => {
  const ways = { name: `complete: ${kind}`, reply: replies({ ...DETAILS, kind }) };
  return [
    { ...ways, how, end: paid },
    {
      ...ways,
      name: `${ways.name}, a failure`,
      how: how === 'completed' ? 'failed' : how,
      end: declined,
    },
    {
      ...ways,
      name: `${ways.name}, recovered`,
      how: how === 'completed' ? 'recovered' : how,
      end: (attempt) => {
        attempt.recovered();
        return paid(attempt);
      },
    },
  ];
});
const DIVERGED: Way = {
  name: 'complete: superseded by a failure',
  how: 'diverged',
  reply: replies({ ...DETAILS, kind: 'superseded', state: 'failed' }),
  end: paid,
};
const OVERTAKEN: Way = {
  name: 'complete: lost, to an attempt that has not ended',
  how: 'diverged',
  reply: replies({ ...DETAILS, kind: 'lost', state: 'in_progress' }),
  end: paid,
};
const UNSAVED: Way = { name: 'complete: none', how: 'unsaved', reply: unavailable, end: paid };
const RELEASES = Object.entries(RELEASE_ENDS).map(([kind, how]): Way => {
  return { name: `release: ${kind}`, how, reply: replies({ kind }), end: release };
});
const GIVEN_UP: Way = { name: 'release: none', how: 'given_up', reply: unavailable, end: release };

const WAYS = [...COMPLETIONS, DIVERGED, OVERTAKEN, UNSAVED, ...RELEASES, GIVEN_UP];

describe('an attempt has ended once', () => {
  const time = inFakeTime();

  /** @param delayMs - the store is unavailable this long at first. */
  async function ended({ reply, end }: Way, delayMs: number, isProtected = true) {
    const worker = time.worker();
    if (!isProtected) worker.store.always(unavailable, 'begin');
    const attempt = await worker.run(newRequest(OPTIONS));
    expect([...worker.engine.running()]).toEqual([attempt]);
    worker.store.always(delayMs === 0 ? reply : unavailable, 'complete', 'release');
    void end(attempt);
    await time.pass(delayMs);
    worker.store.always(reply, 'complete', 'release');
    await time.pass(2 * MAX_EXECUTION_MS);
    expect([...worker.engine.running()]).toEqual([]);
    expect(wrongEnds(worker.events)).toEqual([]);
    return endsOf(worker.events);
  }

  it.each(WAYS)('$how, with the reply to $name', async (way) => {
    expect(await ended(way, 0)).toEqual([way.how]);
  });

  it.each(WAYS)('$how, with the late reply to $name', async (way) => {
    const isSaved = way.end !== release;
    expect(await ended(way, isSaved ? 2 * SAVE_TIMEOUT_MS : SAVE_TIMEOUT_MS / 2)).toEqual([
      way.how,
    ]);
  });

  it.each(WAYS)('without a record: $how, with the reply to $name', async (way) => {
    // The record is another attempt's, which has ended.
    const isFree = way.name === 'release: not_in_progress';
    expect(await ended(way, 0, false)).toEqual([isFree ? 'released' : way.how]);
  });

  it('as not started, when the process stops before it runs', async () => {
    const worker = time.worker();
    const gate = Gate.closed();
    worker.store.next('begin', heldReply(gate));
    const deciding = worker.begin(newRequest(OPTIONS));
    const drained = worker.engine.drain();
    gate.open();
    expect(await deciding).toMatchObject({ kind: 'reject', reason: 'shutting_down' });
    await time.pass(100);
    expect(await drained).toBe(0);
    expect(endsOf(worker.events)).toEqual(['not_started']);
    expect(worker.reported).toEqual(['acquired', 'released', 'rejected']);
    expect(wrongEnds(worker.events)).toEqual([]);
  });

  it.each([
    ['is confirmed', undefined, ['acquired', 'released']],
    ['gets no reply', unavailable, ['acquired', 'release_failed']],
  ] as const)(
    'as not started, when its lease is not confirmed and its release %s',
    async (_, fault, story) => {
      const worker = time.worker();
      const gate = Gate.closed();
      worker.store.next('begin', heldReply(gate));
      worker.store.always(unavailable, 'extend');
      if (fault !== undefined) worker.store.always(fault, 'release');
      const deciding = worker.begin(newRequest(OPTIONS));
      await time.pass(LEASE_MS - 1);
      gate.open();
      await time.pass(2 * SAVE_TIMEOUT_MS);
      expect(await deciding).toMatchObject({ kind: 'reject', reason: 'store_unavailable' });
      expect(endsOf(worker.events)).toEqual(['not_started']);
      expect(worker.reported).toEqual([...story, 'store_unavailable', 'rejected']);
      expect(wrongEnds(worker.events)).toEqual([]);
    },
  );

  it('after its story, with its duration and the bytes of its outcome', async () => {
    const worker = time.worker();
    const request = { ...newRequest(OPTIONS), transport: 'call' } as const;
    const attempt = await worker.run(request);
    await time.pass(250);
    await attempt.complete(success('päid'));
    const { operation, recordKey, transport } = request;
    const { fencingToken } = attempt;
    const bytes = Buffer.byteLength(outcomeOf('päid').header) + Buffer.byteLength('päid');
    const subject = { operation, transport, recordKey, attempt: 1, fencingToken };
    expect(worker.events.slice(1)).toEqual([
      { type: 'completed', ...subject, state: 'completed', late: false, durationMs: 250, bytes },
      { type: 'ended', ...subject, how: 'completed', durationMs: 250, bytes },
    ]);
  });
});
