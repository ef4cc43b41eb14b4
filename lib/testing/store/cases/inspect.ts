import assert from 'node:assert/strict';
import { casesOf } from '../kit/conformance-case.js';
import { LEASE_MS, RECORD_RETENTION_MS } from '../kit/test-record.js';

export const inspect = casesOf('inspect', (it) => {
  it('returns nothing without a record', async (record) => {
    assert.equal(await record.inspect(), undefined);
  });

  it('returns no origin if begin had none', async (record) => {
    await record.begun();
    assert.equal((await record.present()).origin, undefined);
  });

  it('changes nothing in any state of the record', async (record) => {
    await record.begun();
    await record.unchangedBy(() => record.inspect());
    const finished = record.neighbour();
    await finished.completed();
    await finished.unchangedBy(() => finished.inspect());
    const released = record.neighbour();
    await released.released();
    await released.unchangedBy(() => released.inspect());
  });

  it.timed('returns an ended lease as a negative duration', async (record, clock) => {
    await record.begun();
    await clock.step(LEASE_MS + 250);
    assert.equal((await record.present()).leaseLeftMs, -250);
  });

  it.timed('returns a record until its last millisecond', async (record, clock) => {
    await record.begun();
    await clock.step(RECORD_RETENTION_MS - 1);
    assert.equal((await record.present()).retentionLeftMs, 1);
    await clock.step(1);
    assert.equal(await record.inspect(), undefined);
  });
});
