import assert from 'node:assert/strict';
import type { AmendedRecord, AmendReply } from '../../../core/record/commands.js';
import { casesOf } from '../kit/conformance-case.js';
import type { SteppableClock } from '../kit/store-harness.js';
import {
  assertOutcome,
  FAILURE,
  LEASE_MS,
  NOTE,
  OTHER_SUCCESS,
  outcome,
  RETENTION_MS,
  SUCCESS,
  tally,
  TestRecord,
  TOMBSTONE_MS,
} from '../kit/test-record.js';

const RELEASE: AmendedRecord = { kind: 'release', tombstoneMs: TOMBSTONE_MS, isTakeover: true };
const SETTLE: AmendedRecord = {
  kind: 'settle',
  state: 'completed',
  outcome: OTHER_SUCCESS,
  retentionMs: RETENTION_MS,
};
const KEEP: AmendedRecord = { kind: 'keep', outcome: OTHER_SUCCESS };
const CHANGES = [RELEASE, SETTLE, KEEP];
const SMALL_AND_LARGE = ['-', 'x'.repeat(20_000)];

/** Cases for stores that an operator can amend; other stores pass them all. */
export const amend = casesOf('amend', (write) => {
  const it = (name: string, prove: (record: TestRecord) => Promise<void>) => {
    write(name, async (record) => {
      if (await canAmend(record)) await prove(record);
    });
  };
  const timed = (
    name: string,
    prove: (record: TestRecord, clock: SteppableClock) => Promise<void>,
  ) => {
    write.timed(name, async (record, clock) => {
      if (await canAmend(record)) await prove(record, clock);
    });
  };

  it('replies changed and absent without a record, and creates none', async (record) => {
    const other = record.neighbour();
    await other.begun();
    const reply = await other.amend(RELEASE, { recordKey: record.key });
    assert.deepEqual(reply, { kind: 'changed', state: 'absent', fence: 0 });
    assert.equal(await record.inspect(), undefined);
  });

  it('changes nothing when state or fence are not what the operator saw', async (record) => {
    for (const one of await inEachState(record)) {
      const { state, fence } = await one.present();
      const others = [
        { state, fence: fence + 1 },
        { state, fence: fence - 1 },
        { state: state === 'released' ? ('failed' as const) : ('released' as const), fence },
      ];
      for (const expected of others) {
        for (const change of CHANGES) {
          const reply = await one.unchangedBy(() => one.amend(change, { expected }));
          assert.deepEqual(reply, { kind: 'changed', state, fence });
        }
      }
    }
  });

  it('settles only what is not finished, and keeps only what is', async (record) => {
    const [inProgress, completed, failed, released] = await inEachState(record);
    for (const [one, change] of [
      ...[completed, failed].map((each) => [each, SETTLE] as const),
      ...[inProgress, released].map((each) => [each, KEEP] as const),
    ]) {
      const reply = await one.unchangedBy(() => one.amend(change));
      assert.deepEqual(reply, { kind: 'not_applicable' });
    }
  });

  it('releases a record in any state, and the operation runs again as a takeover', async (record) => {
    for (const one of await inEachState(record)) {
      const before = await one.present();
      const reply = await one.amend(RELEASE);
      assert.deepEqual(reply, { kind: 'ok', fence: before.fence + 1 });
      const after = await one.present();
      const { attempt, fingerprint, note } = before;
      const kept = { attempt, fingerprint, note };
      assert.deepEqual(fieldsOf(after), {
        state: 'released',
        fence: before.fence + 1,
        takeovers: before.takeovers + 1,
        ...kept,
      });
      assert.equal(after.outcome, undefined);
      assert.equal(after.origin, undefined);
      const begun = await one.begin(one.attempt());
      assert.equal(begun.kind, 'acquired');
      assert.ok('takeovers' in begun && begun.takeovers === before.takeovers + 1);
    }
  });

  it('counts no takeover when the operator vouches that nothing happened', async (record) => {
    await record.begun();
    await record.amend({ ...RELEASE, isTakeover: false });
    assert.equal((await record.present()).takeovers, 0);
  });

  it('lets the record be gone at once with a tombstone of 0', async (record) => {
    for (const one of await inEachState(record)) {
      assert.equal((await one.amend({ ...RELEASE, tombstoneMs: 0 }))?.kind, 'ok');
      assert.equal(await one.inspect(), undefined);
    }
  });

  it('settles a record in progress or released, and every retry gets that outcome', async (record) => {
    const [inProgress, , , released] = await inEachState(record);
    for (const one of [inProgress, released]) {
      for (const state of ['completed', 'failed'] as const) {
        const settled = one.neighbour();
        const attempt = await settled.begun({ origin: 'here', note: NOTE });
        if (one === released) await settled.release(attempt);
        const { fence, takeovers } = await settled.present();
        const reply = await settled.amend({ ...SETTLE, state });
        assert.deepEqual(reply, { kind: 'ok', fence: fence + 1 });
        const begun = await settled.begin(settled.attempt());
        assert.equal(begun.kind, state);
        assertOutcome('outcome' in begun ? begun.outcome : undefined, OTHER_SUCCESS);
        const after = await settled.present();
        assert.deepEqual([after.fence, after.takeovers, after.note], [fence + 1, takeovers, NOTE]);
        assert.equal(after.origin, undefined);
      }
    }
  });

  it('replaces the outcome of a finished record, and its owner still hears already', async (record) => {
    for (const state of ['completed', 'failed'] as const) {
      for (const body of SMALL_AND_LARGE) {
        const finished = record.neighbour();
        const attempt = await finished.completed({ state, outcome: outcome('first', body) });
        const other = outcome('{"of":"the operator"}', body + body);
        const reply = await finished.amend({ kind: 'keep', outcome: other });
        assert.deepEqual(reply, { kind: 'ok', fence: attempt.fence });
        const after = await finished.present();
        assertOutcome(after.outcome, other);
        assert.deepEqual([after.state, after.fence], [state, attempt.fence]);
        assert.equal((await finished.complete(attempt, { state })).kind, 'already');
      }
    }
  });

  it('keeps the outcome of a finished record that is given none', async (record) => {
    for (const body of SMALL_AND_LARGE) {
      const finished = record.neighbour();
      const own = outcome('{"status":201}', body);
      await finished.completed({ outcome: own });
      assert.equal((await finished.amend({ kind: 'keep', retentionMs: 1_000 }))?.kind, 'ok');
      assertOutcome((await finished.present()).outcome, own);
    }
  });

  it('replaces the note where one is given', async (record) => {
    for (const one of await inEachState(record)) {
      const change = (await one.present()).state === 'completed' ? KEEP : RELEASE;
      await one.amend(change, { note: 'another' });
      assert.equal((await one.present()).note, 'another');
    }
  });

  it('replies already to a copy of the command, and changes nothing', async (record) => {
    const [inProgress, completed, , released] = await inEachState(record);
    for (const [one, change] of [
      [inProgress, SETTLE],
      [completed, RELEASE],
      [released, RELEASE],
    ] as const) {
      const { state, fence } = await one.present();
      const copy = { expected: { state, fence }, token: one.attempt().token };
      assert.equal((await one.amend(change, copy))?.kind, 'ok');
      const reply = await one.unchangedBy(() => one.amend(change, copy));
      assert.deepEqual(reply, { kind: 'already' });
    }
  });

  it('changes the record for one of many concurrent operators, or for none', async (record) => {
    for (const one of await inEachState(record)) {
      const { state, fence } = await one.present();
      const expected = { state, fence };
      const operators = Array.from({ length: 20 }, (): Promise<AmendReply | undefined> =>
        one.amend(RELEASE, { expected }),
      );
      const replies = await Promise.all(operators);
      assert.equal(tally(replies.filter((reply) => reply !== undefined)).ok, 1);
      assert.equal((await one.present()).fence, fence + 1);
    }
  });

  it('takes the record from an attempt that still runs', async (record) => {
    const released = record.neighbour();
    const one = await released.begun();
    await released.amend(RELEASE);
    assert.equal((await released.extend(one)).kind, 'lost');
    assert.equal(
      (await released.complete(one, { state: 'failed', outcome: FAILURE })).kind,
      'lost',
    );
    // The effect did happen: its success stands.
    assert.equal((await released.complete(one)).kind, 'ok_late');
    const settled = record.neighbour();
    const other = await settled.begun();
    await settled.amend(SETTLE);
    assert.equal((await settled.extend(other)).kind, 'lost');
    assert.equal((await settled.release(other)).kind, 'lost');
    const late = await settled.complete(other);
    assert.equal(late.kind, 'superseded');
    assertOutcome('outcome' in late ? late.outcome : undefined, OTHER_SUCCESS);
  });

  it('does not change a record whose lease is running unless it is told to', async (record) => {
    await record.begun();
    for (const change of [RELEASE, SETTLE]) {
      const refused = () => record.amend(change, { evenIfRunning: false });
      assert.equal((await record.unchangedBy(refused))?.kind, 'running');
    }
    const [, completed, failed, released] = await inEachState(record);
    for (const one of [completed, failed, released]) {
      assert.equal((await one.amend(RELEASE, { evenIfRunning: false }))?.kind, 'ok');
    }
  });

  timed('may change it from the first millisecond without a lease', async (record, clock) => {
    await record.begun();
    await clock.step(LEASE_MS - 1);
    const refused = () => record.amend(RELEASE, { evenIfRunning: false });
    assert.deepEqual(await record.unchangedBy(refused), { kind: 'running', leaseLeftMs: 1 });
    await clock.step(1);
    assert.equal((await refused())?.kind, 'ok');
  });

  timed('counts a lease too far ahead as one of its own length', async (record, clock) => {
    await record.begun();
    await clock.step(-3_600_000);
    const reply = await record.amend(RELEASE, { evenIfRunning: false });
    assert.deepEqual(reply, { kind: 'running', leaseLeftMs: LEASE_MS });
  });

  timed('changes nothing before notBefore', async (record, clock) => {
    for (const one of await inEachState(record)) {
      const change: AmendedRecord = (await one.present()).state === 'failed' ? KEEP : RELEASE;
      const notBefore = (await clock.now()) + 10;
      const amending = (): Promise<AmendReply | undefined> => one.amend(change, { notBefore });
      await clock.step(9);
      assert.deepEqual(await one.unchangedBy(amending), { kind: 'too_fresh', leftMs: 1 });
      await clock.step(1);
      assert.equal((await amending())?.kind, 'ok');
    }
  });

  timed('keeps tombstone and outcome exactly as long as requested', async (record, clock) => {
    const [inProgress, completed, failed, released] = await inEachState(record);
    await clock.step(100);
    const left = async (one: TestRecord) => (await one.present()).retentionLeftMs;
    await inProgress.amend(RELEASE);
    assert.equal(await left(inProgress), TOMBSTONE_MS);
    await released.amend({ ...SETTLE, retentionMs: 4_321 });
    assert.equal(await left(released), 4_321);
    await completed.amend({ kind: 'keep', retentionMs: 1_234 });
    assert.equal(await left(completed), 1_234);
    await failed.amend(KEEP);
    assert.equal(await left(failed), RETENTION_MS - 100);
    await clock.step(1_234);
    assert.equal(await completed.inspect(), undefined);
  });

  timed('replies changed and absent to a record that has expired', async (record, clock) => {
    await record.completed();
    const { state, fence } = await record.present();
    await clock.step(RETENTION_MS);
    const other = record.neighbour();
    await other.begun();
    const reply = await other.amend(RELEASE, {
      recordKey: record.key,
      expected: { state, fence },
    });
    assert.deepEqual(reply, { kind: 'changed', state: 'absent', fence: 0 });
  });
});

/** A reply `changed` shows it without a change. */
async function canAmend(record: TestRecord): Promise<boolean> {
  const probe = record.neighbour();
  await probe.begun();
  const expected = { state: 'released', fence: 1 } as const;
  const reply: AmendReply | undefined = await probe.amend(RELEASE, { expected });
  return reply !== undefined;
}

/** In progress, completed, failed and released, each with a note. */
async function inEachState(
  record: TestRecord,
): Promise<[TestRecord, TestRecord, TestRecord, TestRecord]> {
  const begun = async () => {
    const one = record.neighbour();
    return { one, attempt: await one.begun({ note: NOTE, origin: 'here' }) };
  };
  const inProgress = await begun();
  const completed = await begun();
  await completed.one.complete(completed.attempt, { outcome: SUCCESS });
  const failed = await begun();
  await failed.one.complete(failed.attempt, { state: 'failed', outcome: FAILURE });
  const released = await begun();
  await released.one.release(released.attempt);
  return [inProgress.one, completed.one, failed.one, released.one];
}

function fieldsOf({
  state,
  fence,
  takeovers,
  attempt,
  fingerprint,
  note,
}: Awaited<ReturnType<TestRecord['present']>>) {
  return { state, fence, takeovers, attempt, fingerprint, note };
}
