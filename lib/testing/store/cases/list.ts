import assert from 'node:assert/strict';
import type { List, ListedRecord } from '../../../core/record/commands.js';
import type { RecordState } from '../../../core/record/record.js';
import type { IdempotencyStore } from '../../../core/store/idempotency-store.js';
import { casesOf } from '../kit/conformance-case.js';
import type { SteppableClock } from '../kit/store-harness.js';
import { LEASE_MS, RETENTION_MS, TestRecord, TIMEOUT_MS } from '../kit/test-record.js';

/** More than one page, whatever the store's limit. */
const MANY = 250;
const FEW = 20;
const STATES: readonly RecordState[] = ['in_progress', 'completed', 'failed', 'released'];
/** As long as the tag of a scope, and one that ends within a byte. */
const PREFIXES = [12, 5, 43];

/** Cases for stores that list records for an operator; other stores pass them all. */
export const list = casesOf('list', (write) => {
  const it = (name: string, prove: (record: TestRecord) => Promise<void>) => {
    write(name, async (record) => {
      if ((await listed(record.store)) !== undefined) await prove(record);
    });
  };
  const timed = (
    name: string,
    prove: (record: TestRecord, clock: SteppableClock) => Promise<void>,
  ) => {
    write.timed(name, async (record, clock) => {
      if ((await listed(record.store)) !== undefined) await prove(record, clock);
    });
  };

  timed(
    'lists what inspect returns, without the outcome, in every state',
    async (record, clock) => {
      for (const one of await inEachState(record)) {
        await clock.step(10);
        const { outcome: _, ...expected } = await one.present();
        assert.deepEqual(await entryOf(one), { recordKey: one.key, ...expected });
      }
    },
  );

  it('lists records of the requested states alone', async (record) => {
    const records = await inEachState(record);
    for (const state of STATES) {
      const keys = await keysListed(record.store, { states: [state] });
      const found = records.map(({ key }) => keys.has(key));
      assert.deepEqual(
        found,
        STATES.map((each) => each === state),
      );
    }
  });

  timed(
    'tells records whose lease is running from those whose lease is over',
    async (record, clock) => {
      const [inProgress, completed] = await inEachState(record);
      const lists = async (lease: 'running' | 'over') => {
        const keys = await keysListed(record.store, { lease });
        return [inProgress, completed].map((one) => keys.has(one.key));
      };
      await clock.step(LEASE_MS - 1);
      assert.deepEqual(
        [await lists('running'), await lists('over')],
        [
          [true, false],
          [false, false],
        ],
      );
      await clock.step(1);
      assert.deepEqual(
        [await lists('running'), await lists('over')],
        [
          [false, false],
          [true, false],
        ],
      );
    },
  );

  timed('lists records from the requested age on', async (record, clock) => {
    await record.completed();
    await clock.step(999);
    const isListed = async () =>
      (await keysListed(record.store, { minAgeMs: 1_000 })).has(record.key);
    assert.equal(await isListed(), false);
    await clock.step(1);
    assert.equal(await isListed(), true);
  });

  timed('lists a record that began before the clock stepped back', async (record, clock) => {
    await record.begun();
    await clock.step(-1_000);
    assert.equal((await entryOf(record))?.ageMs, -1_000);
  });

  it('lists records whose note contains one of the texts', async (record) => {
    const charge = record.neighbour();
    await charge.begun({ note: '.*%ocharge~' });
    await record.begun();
    for (const [notes, isListed] of [
      [['%ocharge~'], true],
      [['nothing', '.*%'], true],
      [['ocharges'], false],
      [['%x'], false],
    ] as const) {
      const keys = await keysListed(record.store, { notes });
      assert.deepEqual([keys.has(charge.key), keys.has(record.key)], [isListed, false]);
    }
  });

  it('lists records whose key begins with the requested text', async (record) => {
    const other = record.neighbour();
    await record.begun();
    await other.begun();
    for (const length of PREFIXES) {
      const keys = await keysListed(record.store, { keyPrefix: record.key.slice(0, length) });
      assert.ok(keys.has(record.key));
      assert.equal(keys.has(other.key), other.key.startsWith(record.key.slice(0, length)));
    }
  });

  timed('does not list an expired record', async (record, clock) => {
    await record.completed();
    await clock.step(RETENTION_MS - 1);
    assert.ok((await keysListed(record.store)).has(record.key));
    await clock.step(1);
    assert.ok(!(await keysListed(record.store)).has(record.key));
  });

  it('changes nothing', async (record) => {
    for (const one of await inEachState(record)) {
      await one.unchangedBy(() => keysListed(one.store));
    }
  });

  it('lists all of many records, page by page', async (record) => {
    const records = Array.from({ length: MANY }, () => record.neighbour());
    for (const each of records) await each.begun();
    const keys = await keysListed(record.store);
    const missing = records.filter(({ key }) => !keys.has(key));
    assert.equal(missing.length, 0, `${missing.length} of ${MANY} are missing`);
  });

  it('ends a page when it has looked at enough, though it lists nothing', async (record) => {
    const records = Array.from({ length: MANY }, () => record.neighbour());
    for (const each of records) await each.begun();
    const none = { states: ['failed' as const], notes: ['of no record'] };
    const page = await record.store.list({
      ...none,
      limit: FEW,
      maxScanned: FEW,
      timeoutMs: TIMEOUT_MS,
    });
    assert.ok(page);
    assert.deepEqual(page.records, []);
    assert.ok(page.cursor !== undefined, 'there are more pages');
    assert.ok(page.scanned < MANY, `looked at ${page.scanned}`);
  });
});

/** All pages together; `undefined` if the store lists nothing. */
async function listed(
  store: IdempotencyStore,
  how: Partial<List> = {},
): Promise<readonly ListedRecord[] | undefined> {
  const records: ListedRecord[] = [];
  let cursor: string | undefined;
  do {
    const command = { limit: FEW, maxScanned: 5 * FEW, cursor, timeoutMs: TIMEOUT_MS, ...how };
    const page = await store.list(command);
    if (page === undefined) return undefined;
    records.push(...page.records);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return records;
}

async function keysListed(
  store: IdempotencyStore,
  how: Partial<List> = {},
): Promise<ReadonlySet<string>> {
  return new Set((await listed(store, how))?.map(({ recordKey }) => recordKey));
}

async function entryOf({ store, key }: TestRecord): Promise<ListedRecord | undefined> {
  return (await listed(store))?.find(({ recordKey }) => recordKey === key);
}

/** In the order of {@link STATES}. */
async function inEachState(
  record: TestRecord,
): Promise<[TestRecord, TestRecord, TestRecord, TestRecord]> {
  const inProgress = record.neighbour();
  await inProgress.begun({ origin: 'here', note: 'noted' });
  const completed = record.neighbour();
  await completed.completed();
  const failed = record.neighbour();
  await failed.completed({ state: 'failed' });
  const released = record.neighbour();
  await released.released();
  return [inProgress, completed, failed, released];
}
