import assert from 'node:assert/strict';
import type { Lease } from '../../../core/record/record.js';
import { casesOf } from '../kit/conformance-case.js';
import {
  LEASE_MS,
  MAX_EXECUTION_MS,
  NOTE,
  RECORD_RETENTION_MS,
  newFingerprint,
  tally,
} from '../kit/test-record.js';

export const beginTakesOver = casesOf('begin', (it) => {
  it.timed(
    'takes over exactly when the lease ends, not a millisecond earlier',
    async (record, clock) => {
      const first = await record.begun();
      await clock.step(LEASE_MS - 1);
      const early = await record.begin(record.attempt());
      assert.deepEqual(early, { kind: 'in_progress', leaseLeftMs: 1 });
      await clock.step(1);
      const reply = await record.begin(record.attempt());
      assert.equal(reply.kind, 'takeover');
      assert.equal(reply.attempt, 2);
      assert.equal(reply.takeovers, 1);
      assert.equal(reply.now, await clock.now());
      assert.ok(reply.fence > first.fence, 'the fence rises over a takeover');
    },
  );

  it.timed('takes over for one of a hundred concurrent attempts', async (record, clock) => {
    await record.begun();
    await clock.step(LEASE_MS);
    const attempts = Array.from({ length: 100 }, () => record.begin(record.attempt()));
    assert.deepEqual(tally(await Promise.all(attempts)), { takeover: 1, in_progress: 99 });
  });

  it.timed(
    'gives the new attempt its own lease, hard deadline and origin',
    async (record, clock) => {
      await record.begun({ origin: 'first' });
      await clock.step(LEASE_MS);
      const second = await record.begun({ origin: 'second' });
      const shown = await record.present();
      assert.equal(shown.leaseLeftMs, LEASE_MS);
      assert.equal(shown.retentionLeftMs, RECORD_RETENTION_MS);
      assert.equal(shown.origin, 'second');
      await clock.step(MAX_EXECUTION_MS - 1);
      assert.equal((await record.extend(second)).kind, 'revived');
      assert.equal((await record.present()).leaseLeftMs, 1);
    },
  );

  it.timed('counts takeovers apart from attempts, across a release too', async (record, clock) => {
    await record.begun();
    await clock.step(LEASE_MS);
    await record.release(await record.begun());
    const third = await record.begin(record.attempt());
    assert.equal(third.kind, 'acquired');
    assert.equal(third.attempt, 3);
    assert.equal(third.takeovers, 1);
    await clock.step(LEASE_MS);
    const fourth = await record.begin(record.attempt());
    assert.equal(fourth.kind, 'takeover');
    assert.equal(fourth.attempt, 4);
    assert.equal(fourth.takeovers, 2);
  });

  it.timed(
    'replies owned, with its own counters, to a copy of the begin that took over',
    async (record, clock) => {
      await record.begun();
      await clock.step(LEASE_MS);
      const second = await record.begun();
      const reply = await record.begin(second);
      assert.equal(reply.kind, 'owned');
      assert.equal(reply.fence, second.fence);
      assert.equal(reply.attempt, 2);
      assert.equal(reply.takeovers, 1);
    },
  );

  it.timed('rejects the first owner after a takeover', async (record, clock) => {
    const first = await record.begun();
    await clock.step(LEASE_MS);
    const second = await record.begun();
    for (const fence of [first.fence, 0, second.fence]) {
      const late = { ...first, fence };
      assert.equal((await record.unchangedBy(() => record.extend(late))).kind, 'lost');
      assert.equal((await record.unchangedBy(() => record.complete(late))).kind, 'lost');
      assert.equal((await record.unchangedBy(() => record.release(late))).kind, 'lost');
    }
    assert.equal((await record.begin(first)).kind, 'in_progress');
  });

  it.timed(
    'replies abandoned under deny from the end of the lease on, and how long ago it ended',
    async (record, clock) => {
      const { fence } = await record.begun();
      await clock.step(LEASE_MS);
      const how = { onExpiredLease: 'deny', notAfter: 1 } as const;
      for (const overMs of [0, 1_500]) {
        await clock.step(overMs);
        const reply = await record.unchangedBy(() => record.begin(record.attempt(), how));
        assert.deepEqual(reply, { kind: 'abandoned', fence, overMs, attempt: 1, takeovers: 0 });
      }
    },
  );

  it.timed(
    'accepts the late completion of an abandoned record by its owner',
    async (record, clock) => {
      const owner = await record.begun();
      await clock.step(LEASE_MS);
      assert.equal(
        (await record.begin(record.attempt(), { onExpiredLease: 'deny' })).kind,
        'abandoned',
      );
      assert.equal((await record.complete(owner)).kind, 'ok_late');
      assert.equal((await record.begin(record.attempt())).kind, 'completed');
    },
  );

  it.timed(
    'replies mismatch instead of taking over, and instead of abandoned',
    async (record, clock) => {
      await record.begun();
      await clock.step(LEASE_MS);
      for (const onExpiredLease of ['takeover', 'deny'] as const) {
        const how = { onExpiredLease, fingerprint: newFingerprint() };
        const reply = await record.unchangedBy(() => record.begin(record.attempt(), how));
        assert.deepEqual(reply, { kind: 'mismatch' });
      }
    },
  );

  it.timed(
    "replies takeover with the earlier attempt's note, and keeps that of the last one that had one",
    async (record, clock) => {
      await record.begun();
      const takenOver = async (how: { note?: string }) => {
        await clock.step(LEASE_MS);
        const reply = await record.begin(record.attempt(), how);
        assert.equal(reply.kind, 'takeover');
        return reply;
      };
      assert.ok(!('note' in (await takenOver({ note: NOTE }))));
      assert.equal((await record.present()).note, NOTE);
      assert.equal((await takenOver({ note: 'the-third' })).note, NOTE);
      assert.equal((await takenOver({})).note, 'the-third');
      assert.equal((await record.present()).note, 'the-third');
    },
  );

  it.timed(
    'writes which attempts it replaces after a note that ends in <',
    async (record, clock) => {
      const note = async () => (await record.present()).note;
      const began = ({ fence }: Lease) => String(Math.floor(fence / 1000));
      const first = await record.begun({ note: '~first;~record<' });
      assert.equal(await note(), '~first;~record<');
      await clock.step(LEASE_MS);
      const second = await record.begun({ note: '~second;~record<' });
      const history = `<${began(first)}i~first<`;
      assert.equal(await note(), `~second;~record${history}`);
      await record.release(second);
      await record.begun({ note: ';<' });
      assert.equal(await note(), `;<${began(second)}r~second${history}`);
      await clock.step(LEASE_MS);
      await record.begun({ note: 'for-itself' });
      assert.equal(await note(), 'for-itself');
      await clock.step(LEASE_MS);
      // Only as much as there is room for.
      const longest = `${NOTE.slice(3)}~;<`;
      await record.begun({ note: longest });
      assert.equal(await note(), longest);
    },
  );

  it.timed('returns the note with abandoned', async (record, clock) => {
    await record.begun({ note: NOTE });
    await clock.step(LEASE_MS);
    const how = { onExpiredLease: 'deny', note: "a-duplicate's" } as const;
    const reply = await record.unchangedBy(() => record.begin(record.attempt(), how));
    assert.equal(reply.kind, 'abandoned');
    assert.equal(reply.note, NOTE);
  });

  it.timed('does not take over after notAfter', async (record, clock) => {
    await record.begun();
    await clock.step(LEASE_MS);
    const now = await clock.now();
    const late = await record.unchangedBy(() =>
      record.begin(record.attempt(), { notAfter: now - 1 }),
    );
    assert.deepEqual(late, { kind: 'late', now });
    assert.equal((await record.begin(record.attempt(), { notAfter: now })).kind, 'takeover');
  });
});
