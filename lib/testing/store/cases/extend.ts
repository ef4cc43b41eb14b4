import assert from 'node:assert/strict';
import { casesOf } from '../kit/conformance-case.js';
import {
  FAILURE,
  LEASE_MS,
  MAX_EXECUTION_MS,
  RECORD_RETENTION_MS,
  RETENTION_MS,
} from '../kit/test-record.js';

export const extend = casesOf('extend', (it) => {
  it('extends the lease of its owner, and changes nothing else', async (record) => {
    const attempt = await record.begun({ origin: 'here' });
    const before = await record.present();
    assert.deepEqual(await record.extend(attempt), { kind: 'ok' });
    const after = await record.present();
    // Its age is that of now, on a clock that nothing drives.
    const times = { ageMs: 0, leaseLeftMs: 0, retentionLeftMs: 0 };
    assert.deepEqual({ ...after, ...times }, { ...before, ...times });
  });

  it('checks only the owner token when the fence is 0', async (record) => {
    const attempt = await record.begun();
    assert.equal((await record.extend({ ...attempt, fence: 0 })).kind, 'ok');
  });

  it('replies lost to its own token with another fence', async (record) => {
    const attempt = await record.begun();
    for (const fence of [attempt.fence - 1, attempt.fence + 1]) {
      const reply = await record.unchangedBy(() => record.extend({ ...attempt, fence }));
      assert.equal(reply.kind, 'lost');
    }
  });

  it('replies lost to another token with any fence', async (record) => {
    const { fence } = await record.begun();
    for (const other of [record.attempt(), { ...record.attempt(), fence }]) {
      assert.equal((await record.unchangedBy(() => record.extend(other))).kind, 'lost');
    }
  });

  it('replies lost to another token when the record is finished or released', async (record) => {
    await record.completed();
    assert.equal((await record.unchangedBy(() => record.extend(record.attempt()))).kind, 'lost');
    const neighbour = record.neighbour();
    await neighbour.released();
    const late = neighbour.attempt();
    assert.equal((await neighbour.unchangedBy(() => neighbour.extend(late))).kind, 'lost');
  });

  it('replies gone without a record, and creates none', async (record) => {
    assert.equal((await record.extend(record.attempt())).kind, 'gone');
    assert.equal(await record.inspect(), undefined);
  });

  it('does not change its own outcome: a late heartbeat shortens no retention', async (record) => {
    const attempt = await record.completed();
    for (const fence of [attempt.fence, attempt.fence + 1, 0]) {
      const reply = await record.unchangedBy(() => record.extend({ ...attempt, fence }));
      assert.equal(reply.kind, 'not_in_progress');
    }
  });

  it('replies not_in_progress for a kept failure of its own', async (record) => {
    const attempt = await record.completed({ state: 'failed', outcome: FAILURE });
    const reply = await record.unchangedBy(() => record.extend(attempt));
    assert.equal(reply.kind, 'not_in_progress');
  });

  it('does not revive what its owner released', async (record) => {
    const attempt = await record.released();
    const reply = await record.unchangedBy(() => record.extend(attempt));
    assert.equal(reply.kind, 'not_in_progress');
  });

  it.timed('counts lease and retention from the present time', async (record, clock) => {
    const attempt = await record.begun();
    await clock.step(7_000);
    assert.equal((await record.extend(attempt, { leaseMs: 5_000 })).kind, 'ok');
    const { leaseLeftMs, retentionLeftMs } = await record.present();
    assert.equal(leaseLeftMs, 5_000);
    assert.equal(retentionLeftMs, RECORD_RETENTION_MS);
  });

  it.timed(
    'replies revived from the end of the lease on, if there was no takeover',
    async (record, clock) => {
      const attempt = await record.begun();
      await clock.step(LEASE_MS - 1);
      assert.equal((await record.extend(attempt)).kind, 'ok');
      await clock.step(LEASE_MS);
      assert.equal((await record.extend(attempt)).kind, 'revived');
      assert.equal((await record.begin(record.attempt())).kind, 'in_progress');
    },
  );

  it.timed('never extends beyond the hard deadline', async (record, clock) => {
    const attempt = await record.begun();
    await clock.step(MAX_EXECUTION_MS - 1);
    assert.equal((await record.extend(attempt)).kind, 'revived');
    assert.equal((await record.present()).leaseLeftMs, 1);
  });

  it.timed(
    'replies max_execution exactly at the hard deadline, and allows a takeover',
    async (record, clock) => {
      const attempt = await record.begun();
      await clock.step(MAX_EXECUTION_MS);
      const reply = await record.unchangedBy(() => record.extend(attempt));
      assert.equal(reply.kind, 'max_execution');
      assert.equal((await record.begin(record.attempt())).kind, 'takeover');
    },
  );

  it.timed('replies lost, not max_execution, to another attempt', async (record, clock) => {
    const attempt = await record.begun();
    await clock.step(MAX_EXECUTION_MS);
    assert.equal((await record.extend(record.attempt())).kind, 'lost');
    assert.equal((await record.extend({ ...attempt, fence: attempt.fence + 1 })).kind, 'lost');
  });

  it.timed('keeps a record in progress as long as it is extended', async (record, clock) => {
    const attempt = await record.begun({ recordRetentionMs: 30_000 });
    await clock.step(29_999);
    assert.equal((await record.extend(attempt, { recordRetentionMs: 30_000 })).kind, 'revived');
    await clock.step(29_999);
    assert.equal((await record.extend(attempt, { recordRetentionMs: 30_000 })).kind, 'revived');
  });

  it.timed('replies gone exactly when the record expires', async (record, clock) => {
    const running = await record.begun({ recordRetentionMs: 5_000 });
    await clock.step(5_000);
    assert.equal((await record.extend(running)).kind, 'gone');
    const neighbour = record.neighbour();
    const finished = await neighbour.completed();
    await clock.step(RETENTION_MS - 1);
    assert.equal((await neighbour.extend(finished)).kind, 'not_in_progress');
    await clock.step(1);
    assert.equal((await neighbour.extend(finished)).kind, 'gone');
  });
});
