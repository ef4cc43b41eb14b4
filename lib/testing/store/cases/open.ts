import assert from 'node:assert/strict';
import type { StoreObserver } from '../../../core/store/idempotency-store.js';
import { casesOf } from '../kit/conformance-case.js';
import type { TestRecord } from '../kit/test-record.js';

export const open = casesOf('open', (it) => {
  it('works again after each close and open', async (record) => {
    for (let round = 0; round < 3; round += 1) {
      const application = observer();
      await record.store.open(application);
      await replies(record);
      await record.store.close(application);
    }
  });

  it('keeps working for one application when another closes it', async (record) => {
    const { store } = record;
    const [one, other] = [observer(), observer()];
    await store.open(one);
    await store.open(other);
    const attempt = await record.begun();
    await store.close(one);
    assert.equal((await record.present()).fence, attempt.fence);
    await replies(record);
    await store.close(other);
  });

  it('keeps working when an application closes it that never opened it', async (record) => {
    const [one, other] = [observer(), observer()];
    await record.store.open(one);
    await record.store.close(other);
    await replies(record);
    await record.store.close(one);
  });
});

async function replies(record: TestRecord): Promise<void> {
  await assert.doesNotReject(record.neighbour().begun());
}

/** An application of its own. */
function observer(): StoreObserver {
  return { replyMismatched: () => undefined, warned: () => undefined };
}
