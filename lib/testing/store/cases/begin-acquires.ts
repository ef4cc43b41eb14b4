import assert from 'node:assert/strict';
import { casesOf } from '../kit/conformance-case.js';
import {
  LEASE_MS,
  MAX_EXECUTION_MS,
  NOTE,
  RECORD_RETENTION_MS,
  RETENTION_MS,
  TOMBSTONE_MS,
  newFingerprint,
  tally,
} from '../kit/test-record.js';

export const beginAcquires = casesOf('begin', (it) => {
  it('acquires a key without a record', async (record) => {
    const reply = await record.begin(record.attempt());
    assert.equal(reply.kind, 'acquired');
    assert.ok(Number.isSafeInteger(reply.fence) && reply.fence > 0, `fence ${reply.fence}`);
    assert.ok(Number.isSafeInteger(reply.now) && reply.now > 0, `now ${reply.now}`);
    assert.equal(reply.attempt, 1);
    assert.equal(reply.takeovers, 0);
  });

  it('writes the record with its origin and the fence of the reply', async (record) => {
    const origin = 'eyJvcGVyYXRpb24iOiJjaGFyZ2UifQ';
    const { fence } = await record.begun({ origin });
    const shown = await record.present();
    assert.equal(shown.state, 'in_progress');
    assert.equal(shown.fence, fence);
    assert.equal(shown.attempt, 1);
    assert.equal(shown.takeovers, 0);
    assert.equal(shown.fingerprint, record.fingerprint);
    assert.equal(shown.origin, origin);
    assert.equal(shown.outcome, undefined);
  });

  it('does not change the record of another key', async (record) => {
    const neighbour = record.neighbour();
    await neighbour.completed();
    const reply = await neighbour.unchangedBy(() => record.begin(record.attempt()));
    assert.equal(reply.kind, 'acquired');
  });

  it('acquires for one of a hundred concurrent attempts', async (record) => {
    const attempts = Array.from({ length: 100 }, () => record.begin(record.attempt()));
    assert.deepEqual(tally(await Promise.all(attempts)), { acquired: 1, in_progress: 99 });
  });

  it('replies owned to all but one of a hundred concurrent copies, and the same fence to all', async (record) => {
    const attempt = record.attempt();
    const copies = Array.from({ length: 100 }, () => record.begin(attempt));
    const replies = await Promise.all(copies);
    assert.deepEqual(tally(replies), { acquired: 1, owned: 99 });
    const fences = new Set(replies.map((reply) => ('fence' in reply ? reply.fence : undefined)));
    assert.equal(fences.size, 1);
  });

  it('acquires a released record at once, counts the attempt and raises the fence', async (record) => {
    const before = await record.released();
    const reply = await record.begin(record.attempt());
    assert.equal(reply.kind, 'acquired');
    assert.equal(reply.attempt, 2);
    assert.equal(reply.takeovers, 0);
    assert.ok(reply.fence > before.fence, 'the fence rises over a release');
  });

  it('acquires a released record for one of a hundred concurrent attempts', async (record) => {
    await record.released();
    const attempts = Array.from({ length: 100 }, () => record.begin(record.attempt()));
    assert.deepEqual(tally(await Promise.all(attempts)), { acquired: 1, in_progress: 99 });
  });

  it('accepts another fingerprint once the record is released, and keeps it', async (record) => {
    await record.released();
    const fingerprint = newFingerprint();
    const reply = await record.begin(record.attempt(), { fingerprint });
    assert.equal(reply.kind, 'acquired');
    assert.equal((await record.present()).fingerprint, fingerprint);
    assert.equal((await record.begin(record.attempt())).kind, 'mismatch');
  });

  it('keeps the note of a released record unless the next attempt has one', async (record) => {
    await record.release(await record.begun({ note: NOTE }));
    await record.release(await record.begun());
    assert.equal((await record.present()).note, NOTE);
    await record.begun({ note: 'the-third' });
    assert.equal((await record.present()).note, 'the-third');
  });

  it.timed('keeps no note of an expired record', async (record, clock) => {
    await record.begun({ note: NOTE });
    await clock.step(RECORD_RETENTION_MS);
    assert.equal((await record.begin(record.attempt())).kind, 'acquired');
    assert.ok(!('note' in (await record.present())));
  });

  it('replies stale_begin to a delayed copy of a released attempt', async (record) => {
    const attempt = await record.released();
    const reply = await record.unchangedBy(() => record.begin(attempt));
    assert.deepEqual(reply, { kind: 'stale_begin' });
  });

  it('replies stale_begin with any fingerprint and after any delay', async (record) => {
    const attempt = await record.released();
    const how = { fingerprint: newFingerprint(), notAfter: 1 };
    assert.equal((await record.unchangedBy(() => record.begin(attempt, how))).kind, 'stale_begin');
  });

  it('does not acquire after notAfter, and returns the time', async (record) => {
    const neighbour = record.neighbour();
    const { now } = await neighbour.begin(neighbour.attempt()).then(acquired);
    const reply = await record.begin(record.attempt(), { notAfter: now - 1 });
    assert.equal(reply.kind, 'late');
    assert.ok(reply.now >= now, `now ${reply.now}`);
    assert.equal(await record.inspect(), undefined);
  });

  it('does not acquire a released record after notAfter', async (record) => {
    await record.released();
    const reply = await record.unchangedBy(() => record.begin(record.attempt(), { notAfter: 1 }));
    assert.equal(reply.kind, 'late');
  });

  it.timed('acquires in the millisecond of notAfter, not in the next', async (record, clock) => {
    const notAfter = await clock.now();
    const inTime = await record.begin(record.attempt(), { notAfter });
    assert.equal(inTime.kind, 'acquired');
    await clock.step(1);
    const neighbour = record.neighbour();
    const late = await neighbour.begin(neighbour.attempt(), { notAfter });
    assert.deepEqual(late, { kind: 'late', now: notAfter + 1 });
  });

  it.timed(
    "returns its clock in milliseconds and uses the clock's microseconds as the fence",
    async (record, clock) => {
      const now = await clock.now();
      const reply = await record.begin(record.attempt()).then(acquired);
      assert.equal(reply.now, now);
      assert.equal(Math.floor(reply.fence / 1000), now);
    },
  );

  it.timed('sets the lease and the retention of the command', async (record) => {
    await record.begun();
    const { leaseLeftMs, retentionLeftMs } = await record.present();
    assert.equal(leaseLeftMs, LEASE_MS);
    assert.equal(retentionLeftMs, RECORD_RETENTION_MS);
  });

  it.timed('sets no lease beyond the hard deadline', async (record) => {
    await record.begun({ leaseMs: 2 * MAX_EXECUTION_MS });
    assert.equal((await record.present()).leaseLeftMs, MAX_EXECUTION_MS);
  });

  it.timed(
    'acquires anew once a record in progress has expired, with a higher fence',
    async (record, clock) => {
      const first = await record.begun();
      await clock.step(RECORD_RETENTION_MS);
      const reply = await record.begin(record.attempt(), { onExpiredLease: 'deny' }).then(acquired);
      assert.equal(reply.attempt, 1);
      assert.equal(reply.takeovers, 0);
      assert.ok(reply.fence > first.fence, 'the fence rises over expiry');
    },
  );

  it.timed(
    'keeps a record in progress until the millisecond before it expires',
    async (record, clock) => {
      await record.begun();
      await clock.step(RECORD_RETENTION_MS - 1);
      const reply = await record.begin(record.attempt(), { onExpiredLease: 'deny' });
      assert.equal(reply.kind, 'abandoned');
    },
  );

  it.timed(
    'acquires anew, even for another request, exactly when the outcome expires',
    async (record, clock) => {
      const first = await record.completed();
      await clock.step(RETENTION_MS - 1);
      assert.equal((await record.begin(record.attempt())).kind, 'completed');
      await clock.step(1);
      const reply = await record
        .begin(record.attempt(), { fingerprint: newFingerprint() })
        .then(acquired);
      assert.equal(reply.attempt, 1);
      assert.ok(reply.fence > first.fence, 'the fence rises over expiry');
    },
  );

  it.timed('recognises a released attempt until its tombstone expires', async (record, clock) => {
    const attempt = await record.released();
    await clock.step(TOMBSTONE_MS - 1);
    assert.equal((await record.begin(attempt)).kind, 'stale_begin');
    await clock.step(1);
    assert.equal((await record.begin(attempt)).kind, 'acquired');
  });
});

function acquired<Reply extends { kind: string }>(
  reply: Reply,
): Extract<Reply, { kind: 'acquired' }> {
  assert.equal(reply.kind, 'acquired');
  return reply as Extract<Reply, { kind: 'acquired' }>;
}
