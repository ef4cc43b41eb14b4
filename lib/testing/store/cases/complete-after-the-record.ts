import assert from 'node:assert/strict';
import { casesOf } from '../kit/conformance-case.js';
import {
  FAILURE,
  NOTE,
  OTHER_SUCCESS,
  RECORD_RETENTION_MS,
  RETENTION_MS,
  SUCCESS,
  assertOutcome,
  newFingerprint,
} from '../kit/test-record.js';

/** The record was released, lost or expired before its outcome came. */
export const completeAfterTheRecord = casesOf('complete', (it) => {
  it('accepts the late success of an attempt that did not release the record', async (record) => {
    const released = await record.released();
    const late = { ...record.attempt(), fence: released.fence - 1 };
    const fingerprint = newFingerprint();
    assert.deepEqual(await record.complete(late, { fingerprint }), { kind: 'ok_late' });
    const shown = await record.present();
    assert.equal(shown.state, 'completed');
    assert.equal(shown.fence, released.fence);
    assert.equal(shown.attempt, 1);
    assert.equal(shown.takeovers, 0);
    assert.equal(shown.fingerprint, fingerprint);
    assertOutcome(shown.outcome, SUCCESS);
    assert.equal((await record.complete(late)).kind, 'already');
    assert.equal((await record.complete(released, { fingerprint })).kind, 'superseded');
    assert.equal((await record.complete(released)).kind, 'lost');
  });

  it("keeps the caller's fence then, if it is higher", async (record) => {
    const released = await record.released();
    const late = { ...record.attempt(), fence: released.fence + 7 };
    assert.equal((await record.complete(late)).kind, 'ok_late');
    assert.equal((await record.present()).fence, released.fence + 7);
  });

  it('keeps the fence of the record then, if the caller knows none', async (record) => {
    const released = await record.released();
    assert.equal((await record.complete(record.attempt())).kind, 'ok_late');
    assert.equal((await record.present()).fence, released.fence);
  });

  it('keeps the note of the released record with a late success', async (record) => {
    await record.release(await record.begun({ note: NOTE }));
    assert.equal((await record.complete(record.attempt(), { note: '~d5' })).kind, 'ok_late');
    assert.equal((await record.present()).note, NOTE);
  });

  it('rejects the late failure of another attempt, which could hide an effect', async (record) => {
    const { fence } = await record.released();
    const late = record.attempt();
    const how = { state: 'failed', outcome: FAILURE, whenGone: 'restore' } as const;
    const reply = await record.unchangedBy(() => record.complete(late, how));
    assert.deepEqual(reply, { kind: 'lost', state: 'released', fence });
  });

  it('rejects any outcome of the attempt that released the record', async (record) => {
    const attempt = await record.released();
    const lost = { kind: 'lost', state: 'released', fence: attempt.fence } as const;
    for (const fence of [attempt.fence, 0]) {
      for (const state of ['completed', 'failed'] as const) {
        const how = { state, whenGone: 'restore' } as const;
        const late = { ...attempt, fence };
        assert.deepEqual(await record.unchangedBy(() => record.complete(late, how)), lost);
      }
    }
  });

  it('replies gone without a record under report, and creates none', async (record) => {
    assert.deepEqual(await record.complete(record.attempt()), { kind: 'gone' });
    assert.equal(await record.inspect(), undefined);
  });

  it("stores the outcome without a record under restore, with the caller's fence", async (record) => {
    const attempt = { ...record.attempt(), fence: 4_711 };
    const reply = await record.complete(attempt, { whenGone: 'restore' });
    assert.deepEqual(reply, { kind: 'restored' });
    const shown = await record.present();
    assert.equal(shown.state, 'completed');
    assert.equal(shown.fence, 4_711);
    assert.equal(shown.attempt, 1);
    assert.equal(shown.takeovers, 0);
    assert.equal(shown.fingerprint, record.fingerprint);
    assertOutcome(shown.outcome, SUCCESS);
  });

  it('replays a restored outcome, and rejects another request for it', async (record) => {
    await record.complete(record.attempt(), { whenGone: 'restore' });
    assert.equal((await record.begin(record.attempt())).kind, 'completed');
    const fingerprint = newFingerprint();
    assert.equal((await record.begin(record.attempt(), { fingerprint })).kind, 'mismatch');
  });

  it('restores no failure, which could hide an effect', async (record) => {
    const how = { state: 'failed', outcome: FAILURE, whenGone: 'restore' } as const;
    for (const fence of [0, 4_711]) {
      const attempt = { ...record.attempt(), fence };
      assert.deepEqual(await record.complete(attempt, how), { kind: 'gone' });
      assert.equal(await record.inspect(), undefined);
    }
  });

  it('restores once: already to its owner, superseded to others', async (record) => {
    const attempt = record.attempt();
    const how = { whenGone: 'restore' } as const;
    assert.equal((await record.complete(attempt, how)).kind, 'restored');
    assert.equal((await record.unchangedBy(() => record.complete(attempt, how))).kind, 'already');
    const other = { outcome: OTHER_SUCCESS, whenGone: 'restore' } as const;
    const reply = await record.unchangedBy(() => record.complete(record.attempt(), other));
    assert.equal(reply.kind, 'superseded');
    assertOutcome(reply.outcome, SUCCESS);
  });

  it.timed(
    "uses the clock's microseconds as the fence of a restored outcome if the caller knows none",
    async (record, clock) => {
      const now = await clock.now();
      await record.complete(record.attempt(), { whenGone: 'restore' });
      const { fence, retentionLeftMs } = await record.present();
      assert.equal(Math.floor(fence / 1000), now);
      assert.equal(retentionLeftMs, RETENTION_MS);
    },
  );

  it.timed('treats an expired outcome as gone', async (record, clock) => {
    const attempt = await record.completed();
    await clock.step(RETENTION_MS);
    assert.equal((await record.complete(attempt)).kind, 'gone');
    assert.equal(await record.inspect(), undefined);
  });

  it.timed(
    'replaces an expired outcome under restore, with a fence at least as high',
    async (record, clock) => {
      await record.completed();
      await clock.step(RETENTION_MS);
      const attempt = { ...record.attempt(), fence: (await clock.now()) * 1000 };
      const how = { outcome: OTHER_SUCCESS, whenGone: 'restore' } as const;
      assert.equal((await record.complete(attempt, how)).kind, 'restored');
      const shown = await record.present();
      assert.equal(shown.fence, attempt.fence);
      assertOutcome(shown.outcome, OTHER_SUCCESS);
    },
  );

  it.timed('restores an outcome without the note of an expired record', async (record, clock) => {
    const attempt = await record.begun({ note: NOTE });
    await clock.step(RECORD_RETENTION_MS);
    const restored = await record.complete(attempt, { whenGone: 'restore', note: '~d5' });
    assert.equal(restored.kind, 'restored');
    assert.ok(!('note' in (await record.present())));
  });

  it.timed(
    'does not replace an expired record by a failure under restore',
    async (record, clock) => {
      const how = { state: 'failed', outcome: FAILURE, whenGone: 'restore' } as const;
      const [inProgress, released] = [record.neighbour(), record.neighbour()];
      const expired = [
        await record.completed(),
        await inProgress.begun(),
        await released.released(),
      ];
      await clock.step(RECORD_RETENTION_MS);
      for (const lease of expired) {
        for (const fence of [0, lease.fence]) {
          assert.deepEqual(await record.complete({ ...lease, fence }, how), { kind: 'gone' });
        }
      }
      for (const one of [record, inProgress, released]) {
        assert.equal(await one.inspect(), undefined);
      }
    },
  );

  it.timed('raises the fence for the attempt after a restored outcome', async (record, clock) => {
    const restored = { ...record.attempt(), fence: (await clock.now()) * 1000 };
    await record.complete(restored, { whenGone: 'restore' });
    await clock.step(RETENTION_MS);
    assert.ok((await record.begun()).fence > restored.fence);
  });
});
