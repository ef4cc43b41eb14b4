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
  it('prolongs the lease of its owner, and changes nothing else', async (record) => {
    const attempt = await record.begun({ origin: 'here' });
    const before = await record.present();
    assert.deepEqual(await record.extend(attempt), { kind: 'ok' });
    const after = await record.present();
    assert.deepEqual(
      { ...after, leaseLeftMs: 0, retentionLeftMs: 0 },
      { ...before, leaseLeftMs: 0, retentionLeftMs: 0 },
    );
  });

  it('asks for the owner token alone when the fence is 0', async (record) => {
    const attempt = await record.begun();
    assert.equal((await record.extend({ ...attempt, fence: 0 })).kind, 'ok');
  });

  it('says lost to its own token with another fence', async (record) => {
    const attempt = await record.begun();
    for (const fence of [attempt.fence - 1, attempt.fence + 1]) {
      const reply = await record.unchangedBy(() => record.extend({ ...attempt, fence }));
      assert.equal(reply.kind, 'lost');
    }
  });

  it('says lost to another token, whatever its fence', async (record) => {
    const { fence } = await record.begun();
    for (const other of [record.attempt(), { ...record.attempt(), fence }]) {
      assert.equal((await record.unchangedBy(() => record.extend(other))).kind, 'lost');
    }
  });

  it('says lost to another token when the record is finished or released', async (record) => {
    await record.completed();
    assert.equal((await record.unchangedBy(() => record.extend(record.attempt()))).kind, 'lost');
    const neighbour = record.neighbour();
    await neighbour.released();
    const late = neighbour.attempt();
    assert.equal((await neighbour.unchangedBy(() => neighbour.extend(late))).kind, 'lost');
  });

  it('says gone when there is no record, and creates none', async (record) => {
    assert.equal((await record.extend(record.attempt())).kind, 'gone');
    assert.equal(await record.inspect(), undefined);
  });

  it('leaves an outcome of its own alone: a late heartbeat shortens no retention', async (record) => {
    const attempt = await record.completed();
    for (const fence of [attempt.fence, attempt.fence + 1, 0]) {
      const reply = await record.unchangedBy(() => record.extend({ ...attempt, fence }));
      assert.equal(reply.kind, 'not_in_progress');
    }
  });

  it('says not_in_progress for a failure of its own that is kept', async (record) => {
    const attempt = await record.completed({ state: 'failed', outcome: FAILURE });
    const reply = await record.unchangedBy(() => record.extend(attempt));
    assert.equal(reply.kind, 'not_in_progress');
  });

  it('does not bring back what its owner released', async (record) => {
    const attempt = await record.released();
    const reply = await record.unchangedBy(() => record.extend(attempt));
    assert.equal(reply.kind, 'not_in_progress');
  });

  it.timed('counts lease and retention from now', async (record, clock) => {
    const attempt = await record.begun();
    await clock.step(7_000);
    assert.equal((await record.extend(attempt, { leaseMs: 5_000 })).kind, 'ok');
    const { leaseLeftMs, retentionLeftMs } = await record.present();
    assert.equal(leaseLeftMs, 5_000);
    assert.equal(retentionLeftMs, RECORD_RETENTION_MS);
  });

  it.timed(
    'says revived from the very end of the lease on, when nobody took it',
    async (record, clock) => {
      const attempt = await record.begun();
      await clock.step(LEASE_MS - 1);
      assert.equal((await record.extend(attempt)).kind, 'ok');
      await clock.step(LEASE_MS);
      assert.equal((await record.extend(attempt)).kind, 'revived');
      assert.equal((await record.begin(record.attempt())).kind, 'in_progress');
    },
  );

  it.timed('never reaches beyond the hard deadline', async (record, clock) => {
    const attempt = await record.begun();
    await clock.step(MAX_EXECUTION_MS - 1);
    assert.equal((await record.extend(attempt)).kind, 'revived');
    assert.equal((await record.present()).leaseLeftMs, 1);
  });

  it.timed(
    'says max_execution exactly at the hard deadline, and lets another take over',
    async (record, clock) => {
      const attempt = await record.begun();
      await clock.step(MAX_EXECUTION_MS);
      const reply = await record.unchangedBy(() => record.extend(attempt));
      assert.equal(reply.kind, 'max_execution');
      assert.equal((await record.begin(record.attempt())).kind, 'takeover');
    },
  );

  it.timed('says lost, not max_execution, to another attempt', async (record, clock) => {
    const attempt = await record.begun();
    await clock.step(MAX_EXECUTION_MS);
    assert.equal((await record.extend(record.attempt())).kind, 'lost');
    assert.equal((await record.extend({ ...attempt, fence: attempt.fence + 1 })).kind, 'lost');
  });

  it.timed(
    'keeps a record in progress alive for as long as it is extended',
    async (record, clock) => {
      const attempt = await record.begun({ recordRetentionMs: 30_000 });
      await clock.step(29_999);
      assert.equal((await record.extend(attempt, { recordRetentionMs: 30_000 })).kind, 'revived');
      await clock.step(29_999);
      assert.equal((await record.extend(attempt, { recordRetentionMs: 30_000 })).kind, 'revived');
    },
  );

  it.timed('says gone exactly when the record expires', async (record, clock) => {
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
