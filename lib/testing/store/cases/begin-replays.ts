import assert from 'node:assert/strict';
import { casesOf } from '../kit/conformance-case.js';
import {
  FAILURE,
  LEASE_MS,
  MAX_EXECUTION_MS,
  NOTE,
  RECORD_RETENTION_MS,
  RETENTION_MS,
  SUCCESS,
  assertOutcome,
  newFingerprint,
} from '../kit/test-record.js';

export const beginRepeats = casesOf('begin', (it) => {
  it('replies owned, with the same fence, to the copy of a command whose reply was lost', async (record) => {
    const attempt = await record.begun();
    const reply = await record.begin(attempt);
    assert.equal(reply.kind, 'owned');
    assert.equal(reply.fence, attempt.fence);
    assert.equal(reply.attempt, 1);
    assert.equal(reply.takeovers, 0);
  });

  it('replies owned after notAfter too, and under deny: nothing is acquired', async (record) => {
    const attempt = await record.begun();
    const reply = await record.begin(attempt, { notAfter: 1, onExpiredLease: 'deny' });
    assert.equal(reply.kind, 'owned');
  });

  it.timed('renews lease and retention for its owner', async (record, clock) => {
    const attempt = await record.begun();
    await clock.step(7_000);
    const reply = await record.begin(attempt, { leaseMs: 5_000 });
    assert.equal(reply.kind, 'owned');
    assert.equal(reply.now, await clock.now());
    const { leaseLeftMs, retentionLeftMs } = await record.present();
    assert.equal(leaseLeftMs, 5_000);
    assert.equal(retentionLeftMs, RECORD_RETENTION_MS);
  });

  it.timed(
    'replies owned after the lease has ended, if there was no takeover',
    async (record, clock) => {
      const attempt = await record.begun();
      await clock.step(LEASE_MS + 1);
      assert.equal((await record.begin(attempt)).kind, 'owned');
      assert.equal((await record.present()).leaseLeftMs, LEASE_MS);
    },
  );

  it.timed('does not move the hard deadline when begin is repeated', async (record, clock) => {
    const attempt = await record.begun();
    await clock.step(MAX_EXECUTION_MS - 1_000);
    assert.equal((await record.begin(attempt)).kind, 'owned');
    assert.equal((await record.present()).leaseLeftMs, 1_000);
    await clock.step(2_000);
    assert.equal((await record.begin(attempt)).kind, 'owned');
    assert.equal((await record.present()).leaseLeftMs, -1_000);
  });

  it('replies mismatch to another request while the first runs', async (record) => {
    await record.begun();
    const how = { fingerprint: newFingerprint(), notAfter: 1 };
    const reply = await record.unchangedBy(() => record.begin(record.attempt(), how));
    assert.deepEqual(reply, { kind: 'mismatch' });
  });

  it('replies mismatch to its own owner when the fingerprint differs', async (record) => {
    const attempt = await record.begun();
    const fingerprint = newFingerprint();
    const reply = await record.unchangedBy(() => record.begin(attempt, { fingerprint }));
    assert.equal(reply.kind, 'mismatch');
  });

  it('replies mismatch for a finished record, to its owner and to others', async (record) => {
    const owner = await record.completed();
    for (const attempt of [owner, record.attempt()]) {
      const fingerprint = newFingerprint();
      const reply = await record.unchangedBy(() => record.begin(attempt, { fingerprint }));
      assert.deepEqual(reply, { kind: 'mismatch' });
    }
  });

  it('replies in_progress while another attempt runs', async (record) => {
    await record.begun();
    const reply = await record.unchangedBy(() => record.begin(record.attempt()));
    assert.equal(reply.kind, 'in_progress');
    assert.ok(reply.leaseLeftMs > 0 && reply.leaseLeftMs <= LEASE_MS, `${reply.leaseLeftMs} ms`);
  });

  it('replies in_progress after notAfter too, and under deny: nothing is acquired', async (record) => {
    await record.begun();
    const how = { notAfter: 1, onExpiredLease: 'deny' } as const;
    const reply = await record.unchangedBy(() => record.begin(record.attempt(), how));
    assert.equal(reply.kind, 'in_progress');
  });

  it.timed(
    'returns exactly how long the lease of the other attempt lasts',
    async (record, clock) => {
      await record.begun();
      await clock.step(3_000);
      const reply = await record.unchangedBy(() => record.begin(record.attempt()));
      assert.deepEqual(reply, { kind: 'in_progress', leaseLeftMs: LEASE_MS - 3_000 });
    },
  );

  it('returns the outcome of a success, to its owner and to others', async (record) => {
    const owner = await record.completed();
    for (const attempt of [owner, record.attempt()]) {
      const reply = await record.unchangedBy(() => record.begin(attempt));
      assert.equal(reply.kind, 'completed');
      assertOutcome(reply.outcome, SUCCESS);
    }
  });

  it('returns the outcome of a kept failure', async (record) => {
    await record.completed({ state: 'failed', outcome: FAILURE });
    const reply = await record.unchangedBy(() => record.begin(record.attempt()));
    assert.equal(reply.kind, 'failed');
    assertOutcome(reply.outcome, FAILURE);
  });

  it("returns the first attempt's note with in_progress and with an outcome", async (record) => {
    for (const state of ['completed', 'failed'] as const) {
      const each = record.neighbour();
      const owner = await each.begun({ note: NOTE });
      const begin = () => each.begin(each.attempt(), { note: "a-duplicate's" });
      const running = await each.unchangedBy(begin);
      assert.equal(running.kind, 'in_progress');
      assert.equal(running.note, NOTE);
      await each.complete(owner, { state });
      const replay = await each.unchangedBy(begin);
      assert.equal(replay.kind, state);
      assert.equal(replay.note, NOTE);
    }
  });

  it('returns no note with an outcome if begin had none', async (record) => {
    await record.completed();
    assert.ok(!('note' in (await record.begin(record.attempt()))));
  });

  it('returns the outcome after notAfter too: nothing is acquired', async (record) => {
    await record.completed();
    const reply = await record.unchangedBy(() => record.begin(record.attempt(), { notAfter: 1 }));
    assert.equal(reply.kind, 'completed');
  });

  it.timed(
    'returns how long an outcome is kept, and does not prolong it',
    async (record, clock) => {
      await record.completed();
      for (const passed of [1_000, 2_000, 3_000]) {
        await clock.step(1_000);
        const reply = await record.begin(record.attempt());
        assert.equal(reply.kind, 'completed');
        assert.equal(reply.retentionLeftMs, RETENTION_MS - passed);
      }
    },
  );
});
