import assert from 'node:assert/strict';
import type { AbandonedRecord } from '../../../core/record/commands.js';
import type { IdempotencyStore } from '../../../core/store/idempotency-store.js';
import { casesOf } from '../kit/conformance-case.js';
import type { SteppableClock } from '../kit/store-harness.js';
import { LEASE_MS, RECORD_RETENTION_MS, TIMEOUT_MS, type TestRecord } from '../kit/test-record.js';

const ORIGIN = 'b3JkZXJzLWFuZC1jYWxsZXJz';
const OVER_MS = 30_000;
const HOUR_MS = 3_600_000;
/** More than one page, whatever the store's limit. */
const MANY = 250;
const FEW = 20;

/** Cases for stores that list abandoned records; other stores pass them all. */
export const abandoned = casesOf('abandoned', (it) => {
  const timed = (
    name: string,
    prove: (record: TestRecord, clock: SteppableClock) => Promise<void>,
  ) => {
    it.timed(name, async (record, clock) => {
      if ((await listed(record.store)) !== undefined) await prove(record, clock);
    });
  };

  timed(
    'lists a record in progress once its lease has been over for that long',
    async (record, clock) => {
      await record.begun({ origin: ORIGIN });
      await clock.step(LEASE_MS + OVER_MS - 1);
      assert.deepEqual(await mentionsOf(record), []);
      await clock.step(1);
      const { key: recordKey, fingerprint } = record;
      assert.deepEqual(await mentionsOf(record), [{ recordKey, fingerprint, origin: ORIGIN }]);
    },
  );

  timed(
    'lists it in the first millisecond without a lease when 0 is given',
    async (record, clock) => {
      await record.begun({ origin: ORIGIN });
      await clock.step(LEASE_MS - 1);
      assert.equal((await mentionsOf(record, 0)).length, 0);
      await clock.step(1);
      assert.equal((await mentionsOf(record, 0)).length, 1);
    },
  );

  timed('does not list a record without an origin', async (record, clock) => {
    await record.begun();
    await clock.step(LEASE_MS + OVER_MS);
    assert.deepEqual(await mentionsOf(record), []);
  });

  timed('does not list finished and released records', async (record, clock) => {
    const begun = async (one: TestRecord) => one.begun({ origin: ORIGIN });
    const [released, failed] = [record.neighbour(), record.neighbour()];
    await record.complete(await begun(record));
    await failed.complete(await begun(failed), { state: 'failed' });
    await released.release(await begun(released));
    await clock.step(LEASE_MS + OVER_MS);
    for (const one of [record, failed, released]) assert.deepEqual(await mentionsOf(one), []);
  });

  timed('does not list an expired record', async (record, clock) => {
    await record.begun({ origin: ORIGIN });
    await clock.step(RECORD_RETENTION_MS - 1);
    assert.equal((await mentionsOf(record)).length, 1);
    await clock.step(1);
    assert.deepEqual(await mentionsOf(record), []);
  });

  timed('counts from the end of the extended lease', async (record, clock) => {
    const attempt = await record.begun({ origin: ORIGIN });
    await clock.step(LEASE_MS - 1);
    await record.extend(attempt);
    await clock.step(LEASE_MS + OVER_MS - 1);
    assert.deepEqual(await mentionsOf(record), []);
    await clock.step(1);
    assert.equal((await mentionsOf(record)).length, 1);
  });

  timed('does not list a record that was taken over', async (record, clock) => {
    await record.begun({ origin: ORIGIN });
    await clock.step(LEASE_MS + OVER_MS);
    assert.equal((await mentionsOf(record)).length, 1);
    await record.begun({ origin: ORIGIN });
    assert.deepEqual(await mentionsOf(record), []);
  });

  timed('changes nothing', async (record, clock) => {
    await record.begun({ origin: ORIGIN });
    await clock.step(LEASE_MS + OVER_MS);
    await record.unchangedBy(() => mentionsOf(record));
  });

  timed(
    "lists a dead owner's record after a backward clock step, once its lease and that time have passed again",
    async (record, clock) => {
      await record.begun({ origin: ORIGIN });
      await clock.step(-HOUR_MS);
      assert.deepEqual(await mentionsOf(record, 0), []);
      await clock.step(LEASE_MS - 1);
      assert.deepEqual(await mentionsOf(record, 0), []);
      await clock.step(1);
      assert.equal((await mentionsOf(record, 0)).length, 1);
      await clock.step(OVER_MS - 1);
      assert.deepEqual(await mentionsOf(record), []);
      await clock.step(1);
      assert.equal((await mentionsOf(record)).length, 1);
    },
  );

  timed('changes only the lease of a record when it shortens it', async (record, clock) => {
    const attempt = await record.begun({ origin: ORIGIN });
    await clock.step(-HOUR_MS);
    await record.unchangedBy(() => mentionsOf(record));
    await clock.step(LEASE_MS);
    assert.equal((await record.present()).leaseLeftMs, 0);
    assert.equal((await record.extend(attempt)).kind, 'revived');
    assert.equal((await record.complete(attempt)).kind, 'ok');
  });

  timed('does not shorten a lease after a small step', async (record, clock) => {
    await record.begun({ origin: ORIGIN });
    await clock.step(6_000);
    await clock.step(-5_000);
    await record.unchangedBy(() => mentionsOf(record));
    assert.equal((await record.present()).leaseLeftMs, LEASE_MS - 1_000);
  });

  timed('lists all of many records, page by page', async (record, clock) => {
    const records = Array.from({ length: MANY }, () => record.neighbour());
    for (const each of records) await each.begun({ origin: ORIGIN });
    await clock.step(LEASE_MS + OVER_MS);
    const keys = new Set((await listed(record.store))?.map(({ recordKey }) => recordKey));
    const missing = records.filter(({ key }) => !keys.has(key));
    assert.equal(missing.length, 0, `${missing.length} of ${MANY} are missing`);
  });
});

/** All pages together; `undefined` if the store lists nothing. */
async function listed(
  store: IdempotencyStore,
  overMs = OVER_MS,
): Promise<readonly AbandonedRecord[] | undefined> {
  const records: AbandonedRecord[] = [];
  let cursor: string | undefined;
  do {
    const page = await store.abandoned({ overMs, limit: FEW, cursor, timeoutMs: TIMEOUT_MS });
    if (page === undefined) return undefined;
    records.push(...page.records);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return records;
}

/** The entries for one record; equal ones count once. */
async function mentionsOf(record: TestRecord, overMs = OVER_MS): Promise<AbandonedRecord[]> {
  const all = (await listed(record.store, overMs)) ?? [];
  const [mention] = all.filter(({ recordKey }) => recordKey === record.key);
  return mention === undefined ? [] : [mention];
}
