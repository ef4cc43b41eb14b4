import assert from 'node:assert/strict';
import { casesOf } from '../kit/conformance-case.js';
import { FAILURE, LEASE_MS, MAX_EXECUTION_MS, NOTE, TOMBSTONE_MS } from '../kit/test-record.js';

export const release = casesOf('release', (it) => {
  it('leaves a tombstone that keeps fence, counters and fingerprint', async (record) => {
    const attempt = await record.begun({ origin: 'here' });
    assert.deepEqual(await record.release(attempt), { kind: 'ok' });
    const shown = await record.present();
    assert.equal(shown.state, 'released');
    assert.equal(shown.fence, attempt.fence);
    assert.equal(shown.attempt, 1);
    assert.equal(shown.takeovers, 0);
    assert.equal(shown.fingerprint, record.fingerprint);
    assert.equal(shown.leaseLeftMs, undefined);
    assert.equal(shown.origin, undefined);
    assert.equal(shown.outcome, undefined);
  });

  it('leaves a note in front of that of begin', async (record) => {
    const attempt = await record.begun({ note: NOTE });
    assert.equal((await record.release(attempt, { note: '~d5' })).kind, 'ok');
    assert.equal((await record.release(attempt, { note: '~d5' })).kind, 'already');
    assert.equal((await record.present()).note, `~d5${NOTE.slice(0, -3)}`);
  });

  it('checks only the owner token when the fence is 0', async (record) => {
    const attempt = await record.begun();
    assert.equal((await record.release({ ...attempt, fence: 0 })).kind, 'ok');
    assert.equal((await record.present()).fence, attempt.fence);
  });

  it('replies lost to its own token with another fence', async (record) => {
    const attempt = await record.begun();
    for (const fence of [attempt.fence - 1, attempt.fence + 1]) {
      const reply = await record.unchangedBy(() => record.release({ ...attempt, fence }));
      assert.equal(reply.kind, 'lost');
    }
  });

  it('replies lost to another token with any fence, and the owner continues', async (record) => {
    const { fence } = await record.begun();
    for (const other of [record.attempt(), { ...record.attempt(), fence }]) {
      assert.equal((await record.unchangedBy(() => record.release(other))).kind, 'lost');
    }
  });

  it('replies already to a copy of the command with any fence', async (record) => {
    const attempt = await record.released();
    for (const fence of [attempt.fence, attempt.fence + 1, 0]) {
      const reply = await record.unchangedBy(() => record.release({ ...attempt, fence }));
      assert.deepEqual(reply, { kind: 'already' });
    }
  });

  it('replies lost to another token when the record is released', async (record) => {
    await record.released();
    assert.equal((await record.unchangedBy(() => record.release(record.attempt()))).kind, 'lost');
  });

  it('never deletes an outcome, not even for its owner', async (record) => {
    const attempt = await record.completed();
    for (const fence of [attempt.fence, attempt.fence + 1, 0]) {
      const reply = await record.unchangedBy(() => record.release({ ...attempt, fence }));
      assert.equal(reply.kind, 'not_in_progress');
    }
    assert.equal((await record.unchangedBy(() => record.release(record.attempt()))).kind, 'lost');
  });

  it('never deletes a kept failure', async (record) => {
    const attempt = await record.completed({ state: 'failed', outcome: FAILURE });
    const reply = await record.unchangedBy(() => record.release(attempt));
    assert.equal(reply.kind, 'not_in_progress');
  });

  it('replies gone without a record, and creates none', async (record) => {
    assert.equal((await record.release(record.attempt())).kind, 'gone');
    assert.equal(await record.inspect(), undefined);
  });

  it('does not change a new attempt when it is delivered twice', async (record) => {
    const first = await record.released();
    await record.begun();
    assert.equal((await record.unchangedBy(() => record.release(first))).kind, 'lost');
    const withoutReply = { ...first, fence: 0 };
    assert.equal((await record.unchangedBy(() => record.release(withoutReply))).kind, 'lost');
  });

  it.timed(
    'releases after the lease and the hard deadline, if there was no takeover',
    async (record, clock) => {
      const attempt = await record.begun();
      await clock.step(LEASE_MS);
      assert.equal((await record.release(attempt)).kind, 'ok');
      const second = await record.begun();
      await clock.step(MAX_EXECUTION_MS);
      assert.equal((await record.release(second)).kind, 'ok');
    },
  );

  it.timed('keeps the tombstone exactly as long as requested', async (record, clock) => {
    const attempt = await record.released();
    assert.equal((await record.present()).retentionLeftMs, TOMBSTONE_MS);
    await clock.step(TOMBSTONE_MS - 1);
    assert.equal((await record.release(attempt)).kind, 'already');
    await clock.step(1);
    assert.equal((await record.release(attempt)).kind, 'gone');
  });

  it.timed('prolongs nothing when it replies already', async (record, clock) => {
    const attempt = await record.released();
    await clock.step(1_000);
    assert.equal((await record.release(attempt)).kind, 'already');
    assert.equal((await record.present()).retentionLeftMs, TOMBSTONE_MS - 1_000);
  });
});
