import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { Outcome } from '../../../core/record/record.js';
import { casesOf } from '../kit/conformance-case.js';
import { assertOutcome, LEASE_MS, NOTE, outcome, type TestRecord } from '../kit/test-record.js';

const HEADER = '{"status":201}';
const EVERY_BYTE = Uint8Array.from({ length: 256 }, (_, value) => value);

export const outcomeBytes = casesOf('outcome', (it) => {
  const kept = (what: string, expected: Outcome) => {
    it(`keeps ${what} unchanged for replay, supersession and inspection`, async (record) => {
      await record.completed({ outcome: expected });
      await assertKept(record, expected);
    });
  };

  kept('an empty body', outcome(HEADER, ''));
  kept('a body of every byte value', outcome(HEADER, EVERY_BYTE));
  kept('a body that is not UTF-8', outcome(HEADER, Uint8Array.of(0xff, 0xfe, 0xc3, 0x28, 0x80)));
  kept('a body that begins and ends with line breaks', outcome(HEADER, '\n\r\n\0body\r\n\n'));
  kept('a body that looks like a record', outcome(HEADER, '1 c 1 2 3 4 token fingerprint\n{}\n'));
  kept('a body of 5 MB', outcome(HEADER, randomBytes(5_000_000)));
  kept('an empty header', outcome('', 'body'));
  kept('an empty header and body', outcome('', ''));
  kept(
    'a header of quotes, spaces, backslashes and characters beyond ASCII',
    outcome('{"x-name": "\\"Zoë\\" Ωmega — 東京 😀\\u0000 %s $1 "} ', 'body'),
  );
  kept('a header of 16 KB', outcome('{"link":"'.padEnd(16_000, 'x'), 'body'));

  it('keeps only the part of a larger buffer', async (record) => {
    const large = new Uint8Array(Buffer.from('before|the body|after'));
    const body = large.subarray(7, 15);
    await record.completed({ outcome: { header: HEADER, body } });
    await assertKept(record, outcome(HEADER, 'the body'));
  });

  it('keeps a Buffer like a Uint8Array', async (record) => {
    await record.completed({ outcome: { header: HEADER, body: Buffer.from('the body') } });
    await assertKept(record, outcome(HEADER, 'the body'));
  });

  it('keeps the bytes of a restored outcome, and of one stored after a release', async (record) => {
    const expected = outcome(HEADER, EVERY_BYTE);
    await record.complete(record.attempt(), { outcome: expected, whenGone: 'restore' });
    await assertKept(record, expected);
    const released = record.neighbour();
    await released.released();
    await released.complete(released.attempt(), { outcome: expected });
    await assertKept(released, expected);
  });

  it.timed('keeps a body of 64 KB with a note, and after a takeover', async (record, clock) => {
    const expected = outcome(HEADER, randomBytes(65_536));
    const taken = record.neighbour();
    await taken.begun();
    await clock.step(LEASE_MS);
    for (const [one, note] of [
      [record, NOTE],
      [taken, undefined],
    ] as const) {
      const attempt = await one.begun({ note });
      assert.equal((await one.complete(attempt, { outcome: expected })).kind, 'ok');
      assert.equal((await one.present()).note, note);
      assert.equal((await one.complete(attempt, { outcome: expected })).kind, 'already');
      await assertKept(one, expected);
    }
  });

  it('keeps a body of 64 KB with a note in front of that of begin', async (record) => {
    const expected = outcome(HEADER, randomBytes(65_536));
    const bare = record.neighbour();
    for (const [one, note, written] of [
      [record, NOTE, `~d5${NOTE.slice(0, -3)}`],
      [bare, undefined, '~d5'],
    ] as const) {
      const attempt = await one.begun({ note });
      assert.equal((await one.complete(attempt, { outcome: expected, note: '~d5' })).kind, 'ok');
      assert.equal((await one.present()).note, written);
      const replay = await one.begin(one.attempt());
      assert.equal('note' in replay && replay.note, written);
      await assertKept(one, expected);
    }
  });

  it('keeps the bytes when the caller changes its buffer afterwards', async (record) => {
    const body = new Uint8Array(Buffer.from('the body'));
    await record.completed({ outcome: { header: HEADER, body } });
    body.fill(0);
    await assertKept(record, outcome(HEADER, 'the body'));
  });

  it('keeps the bytes when a caller changes those that it received', async (record) => {
    const expected = outcome(HEADER, 'the body');
    await record.completed({ outcome: expected });
    const replay = await record.begin(record.attempt());
    assert.equal(replay.kind, 'completed');
    replay.outcome.body.fill(0);
    const superseded = await record.complete(record.attempt());
    assert.equal(superseded.kind, 'superseded');
    superseded.outcome.body.fill(0);
    (await record.present()).outcome?.body.fill(0);
    await assertKept(record, expected);
  });
});

async function assertKept(record: TestRecord, expected: Outcome): Promise<void> {
  const replay = await record.begin(record.attempt());
  assert.equal(replay.kind, 'completed');
  assertOutcome(replay.outcome, expected);
  const superseded = await record.complete(record.attempt());
  assert.equal(superseded.kind, 'superseded');
  assertOutcome(superseded.outcome, expected);
  assertOutcome((await record.present()).outcome, expected);
}
