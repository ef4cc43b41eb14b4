import assert from 'node:assert/strict';
import { casesOf } from '../kit/conformance-case.js';
import { LEASE_MS, NOTE, RECORD_RETENTION_MS, type TestRecord } from '../kit/test-record.js';

export const inspect = casesOf('inspect', (it) => {
  it('returns nothing without a record', async (record) => {
    assert.equal(await record.inspect(), undefined);
  });

  it('returns no origin if begin had none', async (record) => {
    await record.begun();
    assert.equal((await record.present()).origin, undefined);
  });

  it('returns the note of begin in every state of the record', async (record) => {
    const shown = async (of: TestRecord) => (await of.present()).note;
    const attempt = await record.begun({ note: NOTE });
    assert.equal(await shown(record), NOTE);
    await record.begin(attempt);
    await record.extend(attempt);
    assert.equal(await shown(record), NOTE);
    await record.complete(attempt);
    assert.equal(await shown(record), NOTE);
    const released = record.neighbour();
    await released.release(await released.begun({ note: NOTE }));
    assert.equal(await shown(released), NOTE);
  });

  it('returns no note if begin had none', async (record) => {
    const attempt = await record.begun();
    assert.ok(!('note' in (await record.present())));
    await record.complete(attempt);
    assert.ok(!('note' in (await record.present())));
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

  it.timed('counts the age from the begin of the latest attempt', async (record, clock) => {
    const attempt = await record.begun();
    await clock.step(LEASE_MS - 1);
    await record.extend(attempt);
    assert.equal((await record.present()).ageMs, LEASE_MS - 1);
    await record.release(attempt);
    await record.begun();
    assert.equal((await record.present()).ageMs, 0);
    await clock.step(1_234);
    assert.equal((await record.present()).ageMs, 1_234);
  });

  it.timed('returns a record until its last millisecond', async (record, clock) => {
    await record.begun();
    await clock.step(RECORD_RETENTION_MS - 1);
    assert.equal((await record.present()).retentionLeftMs, 1);
    await clock.step(1);
    assert.equal(await record.inspect(), undefined);
  });
});
