import assert from 'node:assert/strict';
import { casesOf } from '../kit/conformance-case.js';
import { LEASE_MS, RECORD_RETENTION_MS } from '../kit/test-record.js';

const HOUR_MS = 3_600_000;

/** The server's clock is set back, by an operator or by a failover to another server. */
export const clockStepsBack = casesOf('begin', (it) => {
  it.timed(
    'shortens a lease that ends further ahead than its own length, and stores that',
    async (record, clock) => {
      await record.begun();
      await clock.step(-HOUR_MS);
      const reply = await record.begin(record.attempt());
      assert.deepEqual(reply, { kind: 'in_progress', leaseLeftMs: LEASE_MS });
      await clock.step(LEASE_MS - 1);
      assert.equal((await record.begin(record.attempt())).kind, 'in_progress');
      await clock.step(1);
      assert.equal((await record.begin(record.attempt())).kind, 'takeover');
    },
  );

  it.timed(
    "shortens it to the owner's lease length, not to that of the command",
    async (record, clock) => {
      await record.begun({ leaseMs: 4_000 });
      await clock.step(-HOUR_MS);
      const reply = await record.begin(record.attempt(), { leaseMs: LEASE_MS });
      assert.deepEqual(reply, { kind: 'in_progress', leaseLeftMs: 4_000 });
    },
  );

  it.timed('does not shorten a lease within its own length', async (record, clock) => {
    await record.begun();
    await clock.step(6_000);
    await clock.step(-5_000);
    const reply = await record.unchangedBy(() => record.begin(record.attempt()));
    assert.deepEqual(reply, { kind: 'in_progress', leaseLeftMs: LEASE_MS - 1_000 });
  });

  it.timed(
    'returns the shortened lease from inspect, which writes nothing',
    async (record, clock) => {
      await record.begun();
      await clock.step(-HOUR_MS);
      assert.equal((await record.present()).leaseLeftMs, LEASE_MS);
      await clock.step(LEASE_MS);
      assert.equal((await record.present()).leaseLeftMs, LEASE_MS);
    },
  );

  it.timed('extends the lease of its owner from the present time', async (record, clock) => {
    const attempt = await record.begun();
    await clock.step(-HOUR_MS);
    assert.equal((await record.extend(attempt)).kind, 'ok');
    await clock.step(LEASE_MS - 1);
    assert.equal((await record.begin(record.attempt())).kind, 'in_progress');
    await clock.step(1);
    assert.equal((await record.begin(record.attempt())).kind, 'takeover');
  });

  it.timed('raises the fence by one if the clock is behind it', async (record, clock) => {
    const first = await record.begun();
    await record.release(first);
    await clock.step(-HOUR_MS);
    const second = await record.begun();
    assert.equal(second.fence, first.fence + 1);
    await clock.step(LEASE_MS);
    const third = await record.begun();
    assert.equal(third.fence, second.fence + 1);
  });

  it.timed(
    'keeps a record for its retention, counted by the present clock',
    async (record, clock) => {
      await record.begun();
      await clock.step(-HOUR_MS);
      assert.equal((await record.present()).retentionLeftMs, RECORD_RETENTION_MS + HOUR_MS);
    },
  );
});
