import assert from 'node:assert/strict';
import { casesOf } from '../kit/conformance-case.js';
import { FAILURE, LEASE_MS, MAX_EXECUTION_MS, TOMBSTONE_MS } from '../kit/test-record.js';

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

  it('asks for the owner token alone when the fence is 0', async (record) => {
    const attempt = await record.begun();
    assert.equal((await record.release({ ...attempt, fence: 0 })).kind, 'ok');
    assert.equal((await record.present()).fence, attempt.fence);
  });

  it('says lost to its own token with another fence', async (record) => {
    const attempt = await record.begun();
    for (const fence of [attempt.fence - 1, attempt.fence + 1]) {
      const reply = await record.unchangedBy(() => record.release({ ...attempt, fence }));
      assert.equal(reply.kind, 'lost');
    }
  });

  it('says lost to another token, whatever its fence: the owner runs on', async (record) => {
    const { fence } = await record.begun();
    for (const other of [record.attempt(), { ...record.attempt(), fence }]) {
      assert.equal((await record.unchangedBy(() => record.release(other))).kind, 'lost');
    }
  });

  it('says already to a copy of the command, whatever its fence', async (record) => {
    const attempt = await record.released();
    for (const fence of [attempt.fence, attempt.fence + 1, 0]) {
      const reply = await record.unchangedBy(() => record.release({ ...attempt, fence }));
      assert.deepEqual(reply, { kind: 'already' });
    }
  });

  it('says lost to another token when the record is released', async (record) => {
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

  it('never deletes a failure that is kept', async (record) => {
    const attempt = await record.completed({ state: 'failed', outcome: FAILURE });
    const reply = await record.unchangedBy(() => record.release(attempt));
    assert.equal(reply.kind, 'not_in_progress');
  });

  it('says gone when there is no record, and creates none', async (record) => {
    assert.equal((await record.release(record.attempt())).kind, 'gone');
    assert.equal(await record.inspect(), undefined);
  });

  it('delivered twice around a new attempt, does not touch that attempt', async (record) => {
    const first = await record.released();
    await record.begun();
    assert.equal((await record.unchangedBy(() => record.release(first))).kind, 'lost');
    const withoutReply = { ...first, fence: 0 };
    assert.equal((await record.unchangedBy(() => record.release(withoutReply))).kind, 'lost');
  });

  it.timed(
    'lets go of a lease that is over, and past the hard deadline, when nobody took it',
    async (record, clock) => {
      const attempt = await record.begun();
      await clock.step(LEASE_MS);
      assert.equal((await record.release(attempt)).kind, 'ok');
      const second = await record.begun();
      await clock.step(MAX_EXECUTION_MS);
      assert.equal((await record.release(second)).kind, 'ok');
    },
  );

  it.timed(
    'keeps the tombstone for as long as it is told, and not a millisecond longer',
    async (record, clock) => {
      const attempt = await record.released();
      assert.equal((await record.present()).retentionLeftMs, TOMBSTONE_MS);
      await clock.step(TOMBSTONE_MS - 1);
      assert.equal((await record.release(attempt)).kind, 'already');
      await clock.step(1);
      assert.equal((await record.release(attempt)).kind, 'gone');
    },
  );

  it.timed('prolongs nothing by saying already', async (record, clock) => {
    const attempt = await record.released();
    await clock.step(1_000);
    assert.equal((await record.release(attempt)).kind, 'already');
    assert.equal((await record.present()).retentionLeftMs, TOMBSTONE_MS - 1_000);
  });
});
