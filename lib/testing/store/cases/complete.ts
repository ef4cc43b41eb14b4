import assert from 'node:assert/strict';
import { casesOf } from '../kit/conformance-case.js';
import {
  FAILURE,
  LEASE_MS,
  MAX_EXECUTION_MS,
  NOTE,
  OTHER_SUCCESS,
  RETENTION_MS,
  SUCCESS,
  assertOutcome,
  newFingerprint,
} from '../kit/test-record.js';

export const complete = casesOf('complete', (it) => {
  it('stores the outcome of a success, and keeps fence and counters', async (record) => {
    const attempt = await record.begun({ origin: 'here' });
    assert.deepEqual(await record.complete(attempt), { kind: 'ok' });
    const shown = await record.present();
    assert.equal(shown.state, 'completed');
    assert.equal(shown.fence, attempt.fence);
    assert.equal(shown.attempt, 1);
    assert.equal(shown.takeovers, 0);
    assert.equal(shown.leaseLeftMs, undefined);
    assert.equal(shown.origin, undefined);
    assertOutcome(shown.outcome, SUCCESS);
  });

  it('writes its note in front of that of begin, and cuts the end', async (record) => {
    const bare = record.neighbour();
    for (const [one, note, written] of [
      [record, NOTE, `~d5${NOTE.slice(0, -3)}`],
      [bare, undefined, '~d5'],
    ] as const) {
      const attempt = await one.begun({ note });
      assert.equal((await one.complete(attempt, { note: '~d5' })).kind, 'ok');
      assert.equal((await one.complete(attempt, { note: '~d5' })).kind, 'already');
      assert.equal((await one.present()).note, written);
    }
  });

  it('stores the outcome of a failure', async (record) => {
    const attempt = await record.begun();
    assert.equal(
      (await record.complete(attempt, { state: 'failed', outcome: FAILURE })).kind,
      'ok',
    );
    const shown = await record.present();
    assert.equal(shown.state, 'failed');
    assertOutcome(shown.outcome, FAILURE);
  });

  it('keeps the fingerprint that the attempt began with', async (record) => {
    const attempt = await record.begun();
    const fingerprint = newFingerprint();
    assert.equal((await record.complete(attempt, { fingerprint, whenGone: 'restore' })).kind, 'ok');
    assert.equal((await record.present()).fingerprint, record.fingerprint);
    assert.equal((await record.begin(record.attempt(), { fingerprint })).kind, 'mismatch');
  });

  it('checks only the owner token when the fence is 0', async (record) => {
    const attempt = await record.begun();
    assert.equal((await record.complete({ ...attempt, fence: 0 })).kind, 'ok');
    assert.equal((await record.present()).fence, attempt.fence);
  });

  it('replies lost, with the valid fence, to its own token with another fence', async (record) => {
    const attempt = await record.begun();
    for (const fence of [attempt.fence - 1, attempt.fence + 1]) {
      const reply = await record.unchangedBy(() => record.complete({ ...attempt, fence }));
      assert.deepEqual(reply, { kind: 'lost', state: 'in_progress', fence: attempt.fence });
    }
  });

  it('replies lost to another token while the owner runs, under restore too', async (record) => {
    const { fence } = await record.begun();
    for (const whenGone of ['restore', 'report'] as const) {
      const other = { ...record.attempt(), fence };
      const reply = await record.unchangedBy(() => record.complete(other, { whenGone }));
      assert.deepEqual(reply, { kind: 'lost', state: 'in_progress', fence });
    }
  });

  it('replies already to a copy of the command with any fence', async (record) => {
    const attempt = await record.completed();
    for (const fence of [attempt.fence, attempt.fence + 1, 0]) {
      const reply = await record.unchangedBy(() => record.complete({ ...attempt, fence }));
      assert.deepEqual(reply, { kind: 'already' });
    }
  });

  it('never changes a stored outcome, not even for its owner', async (record) => {
    const attempt = await record.completed();
    const how = { state: 'failed', outcome: FAILURE, retentionMs: 1, whenGone: 'restore' } as const;
    assert.equal((await record.unchangedBy(() => record.complete(attempt, how))).kind, 'already');
  });

  it('replies already to a copy of a kept failure', async (record) => {
    const how = { state: 'failed', outcome: FAILURE } as const;
    const attempt = await record.completed(how);
    assert.equal((await record.unchangedBy(() => record.complete(attempt, how))).kind, 'already');
  });

  it('returns the stored outcome to an attempt that was superseded', async (record) => {
    await record.completed();
    const how = { outcome: OTHER_SUCCESS, whenGone: 'restore' } as const;
    const reply = await record.unchangedBy(() => record.complete(record.attempt(), how));
    assert.equal(reply.kind, 'superseded');
    assert.equal(reply.state, 'completed');
    assertOutcome(reply.outcome, SUCCESS);
  });

  it('returns a kept failure likewise, and does not replace it by a success', async (record) => {
    await record.completed({ state: 'failed', outcome: FAILURE });
    const reply = await record.unchangedBy(() => record.complete(record.attempt()));
    assert.equal(reply.kind, 'superseded');
    assert.equal(reply.state, 'failed');
    assertOutcome(reply.outcome, FAILURE);
  });

  it('returns no outcome of another content, but lost with the valid state and fence', async (record) => {
    for (const state of ['completed', 'failed'] as const) {
      const one = record.neighbour();
      const { fence } = await one.completed({ state });
      const other = { ...one.attempt(), fence: fence - 1 };
      const how = { fingerprint: newFingerprint(), whenGone: 'restore' } as const;
      const reply = await one.unchangedBy(() => one.complete(other, how));
      assert.deepEqual(reply, { kind: 'lost', state, fence });
    }
  });

  it('replies already to its own copy with any content', async (record) => {
    const attempt = await record.completed();
    const how = { fingerprint: newFingerprint() };
    assert.equal((await record.unchangedBy(() => record.complete(attempt, how))).kind, 'already');
  });

  it('stores one of fifty concurrent outcomes and returns it to the others', async (record) => {
    const attempts = Array.from({ length: 50 }, () => record.attempt());
    const replies = await Promise.all(
      attempts.map((attempt) => record.complete(attempt, { whenGone: 'restore' })),
    );
    assert.equal(replies.filter(({ kind }) => kind === 'restored').length, 1);
    assert.equal(replies.filter(({ kind }) => kind === 'superseded').length, 49);
  });

  it.timed('counts the retention from the completion', async (record, clock) => {
    const attempt = await record.begun();
    await clock.step(5_000);
    await record.complete(attempt, { retentionMs: 20_000 });
    assert.equal((await record.present()).retentionLeftMs, 20_000);
    await clock.step(19_999);
    assert.equal((await record.begin(record.attempt())).kind, 'completed');
    await clock.step(1);
    assert.equal(await record.inspect(), undefined);
  });

  it.timed('prolongs nothing when it replies already', async (record, clock) => {
    const attempt = await record.completed();
    await clock.step(1_000);
    assert.equal((await record.complete(attempt)).kind, 'already');
    assert.equal((await record.present()).retentionLeftMs, RETENTION_MS - 1_000);
  });

  it.timed(
    'replies ok_late from the end of the lease on, if there was no takeover',
    async (record, clock) => {
      const neighbour = record.neighbour();
      const inTime = await neighbour.begun();
      const late = await record.begun();
      await clock.step(LEASE_MS - 1);
      assert.equal((await neighbour.complete(inTime)).kind, 'ok');
      await clock.step(1);
      assert.deepEqual(await record.complete(late), { kind: 'ok_late' });
      assertOutcome((await record.present()).outcome, SUCCESS);
    },
  );

  it.timed(
    'replies ok_late past the hard deadline too, since the effect has happened',
    async (record, clock) => {
      const attempt = await record.begun();
      await clock.step(MAX_EXECUTION_MS + 1);
      assert.equal((await record.complete(attempt)).kind, 'ok_late');
    },
  );

  it.timed(
    'keeps the counters of a takeover, and returns its outcome to the first owner',
    async (record, clock) => {
      const first = await record.begun();
      await clock.step(LEASE_MS);
      const second = await record.begun();
      assert.equal((await record.complete(second, { outcome: OTHER_SUCCESS })).kind, 'ok');
      const { attempt, takeovers } = await record.present();
      assert.deepEqual({ attempt, takeovers }, { attempt: 2, takeovers: 1 });
      const reply = await record.unchangedBy(() => record.complete(first));
      assert.equal(reply.kind, 'superseded');
      assertOutcome(reply.outcome, OTHER_SUCCESS);
    },
  );

  it.timed(
    'returns no outcome to an attempt whose key was released and acquired for another content',
    async (record, clock) => {
      const first = await record.begun();
      await clock.step(LEASE_MS);
      await record.release(await record.begun());
      const fingerprint = newFingerprint();
      const other = await record.begun({ fingerprint });
      await record.complete(other, { outcome: OTHER_SUCCESS, fingerprint });
      const reply = await record.unchangedBy(() => record.complete(first));
      assert.deepEqual(reply, { kind: 'lost', state: 'completed', fence: other.fence });
    },
  );
});
