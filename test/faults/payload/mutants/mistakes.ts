import type { PlantedMistake } from '../../../support/planted/planted-mistake.js';

/** A mistake as a maintainer could make it, in one file of lib. */
export interface PayloadMistake extends PlantedMistake {
  /** A path from the project's root. */
  readonly file: string;
  /** A text that stands in the file exactly once, and what is there in its place. */
  readonly change: readonly [original: string, changed: string];
}

type Entry = readonly [mistake: string, objection: string, original: string, changed: string];

function inFile(file: string, suite: string, ...entries: readonly Entry[]): PayloadMistake[] {
  return entries.map(([mistake, objection, original, changed]) => ({
    ...{ mistake, objection, file, suite, change: [original, changed] as const },
  }));
}

const UNIT = 'test/unit/payload';
const E2E = 'test/e2e/payload/blobs.test.ts';
const STREAMS = 'test/e2e/payload/large-responses.test.ts';
const LIVE = 'test/e2e/payload/hold-last.test.ts';

export const PAYLOAD_MISTAKES: readonly PayloadMistake[] = [
  ...inFile(
    'lib/core/payload/sealing.ts',
    `${UNIT}/encryption.test.ts`,
    [
      'an outcome can be read as that of another record',
      'is not read with another recordKey',
      'writeLatin1(recordKey, bytes,',
      "writeLatin1('r'.repeat(recordKey.length), bytes,",
    ],
    [
      'a failure can be read as a success',
      'is not read with another state',
      '{ recordKey, state, fingerprint } = binding;',
      "{ recordKey, fingerprint, state } = { ...binding, state: 'completed' };",
    ],
    [
      'an outcome can be read for another content',
      'is not read with another fingerprint',
      'writeLatin1(fingerprint, bytes,',
      "writeLatin1('f'.repeat(fingerprint.length), bytes,",
    ],
    [
      'one part of the binding can run into the next',
      'with the parts of its binding divided elsewhere',
      '`${recordKey.length}:`',
      "''",
    ],
    [
      'the head is not authenticated',
      'with another length in its head',
      'bytes[at] = frame[at] ?? 0;',
      'bytes[at] = 0;',
    ],
    [
      'the tag is not verified',
      'is not read with any single bit changed',
      'decipher.final();',
      'void decipher;',
    ],
    [
      'a derived key is used for ever',
      'is renewed after an hour',
      'this.clock.now() < current.endsAt',
      'current.endsAt > 0',
    ],
    [
      'a derived key is used for any number of outcomes',
      'is renewed after 2^28 outcomes',
      'current.sealsLeft > 0 &&',
      'current.endsAt > 0 &&',
    ],
    [
      'all processes derive one key',
      'is its own, and others read what it wrote',
      '    this.clock.randomFill(salt);\n',
      '',
    ],
    ['a nonce is used again', 'is used with a nonce once', 'this.used += length;', ''],
    [
      'a reader derives keys without a limit',
      'is kept by readers, of a limited number of processes',
      'deleteOldest(derived, MAX_DERIVED);',
      'deleteOldest(derived, Infinity);',
    ],
  ),
  ...inFile(
    'lib/core/payload/frame.ts',
    `${UNIT}/frame.test.ts`,
    ['reserved bits are ignored', 'reserved bit', ' && (flags & RESERVED) === 0', ''],
    [
      'any length of a content is believed',
      'a length that no outcome has',
      'if (clearBytes > MAX_CLEAR_BYTES) throw',
      'if (clearBytes < 0) throw',
    ],
    [
      'what is no header is read as one',
      'a header that is no UTF-8',
      "if (!isWhole) throw new UnreadableOutcome('format');\n  return { header",
      'void isWhole;\n  return { header',
    ],
    [
      'half a key of a blob is read as one',
      'is read neither with a byte less nor with a byte more',
      'key.length === KEY_BYTES || key.length === 0',
      'key.length <= KEY_BYTES',
    ],
    [
      'a content without its end is read',
      'less header than it says',
      'if (this.at > this.bytes.length) throw',
      'if (this.at < 0) throw',
    ],
  ),
  ...inFile(
    'lib/core/payload/compression.ts',
    `${UNIT}/compression.test.ts`,
    [
      'a frame inflates to any length',
      'never inflates more than',
      'maxOutputLength: Math.max(1, clearBytes),',
      '',
    ],
    [
      'bytes behind the end are ignored',
      'is not read where a byte of',
      ' && engine.bytesWritten === content.length',
      '',
    ],
    [
      'a changed dictionary is used',
      'is not read where the dictionary',
      '!dictionary?.checksum.every((byte, at) => byte === named.checksum[at])',
      'dictionary === undefined',
    ],
    [
      'what gains nothing is compressed',
      'leaves what would not be smaller by an eighth',
      '(clear.length * 7) / 8',
      'clear.length',
    ],
  ),
  ...inFile(
    'lib/core/payload/segments.ts',
    `${UNIT}/segments.test.ts`,
    [
      'a body may end after any segment',
      'without the last one',
      'nonce[11] = isLast ? 1 : 0;',
      'nonce[11] = Number(isLast) * 0;',
    ],
    [
      'segments may change places',
      'in another order',
      'nonce.writeUInt32BE(index, 7);',
      'nonce.writeUInt32BE(index * 0, 7);',
    ],
    [
      'the tags of segments are not verified',
      'do not open with any bit changed',
      'decipher.final();',
      'void decipher;',
    ],
  ),
  ...inFile('lib/core/payload/outcome-transform.ts', `${UNIT}/encryption.test.ts`, [
    'a route cannot leave its outcomes in clear',
    'is in clear where a route says so',
    'const sealing = options.encryption === false ? undefined : this.sealing;',
    'const sealing = options.encryption === undefined ? undefined : this.sealing;',
  ]),
  ...inFile('lib/core/payload/outcome-transform.ts', `${UNIT}/round-trips.test.ts`, [
    'an outcome that looks like a frame is stored as it is',
    'any outcome is the same',
    ' || outcome.header === FRAME_HEADER;',
    ';',
  ]),
  ...inFile(
    'lib/core/payload/key-ring.ts',
    `${UNIT}/encryption.test.ts`,
    [
      'keys are loaded at each use',
      'are so at a use, at most every five minutes',
      'this.clock.now() < this.dueAt || ',
      '',
    ],
    [
      'an id may be given to another key',
      'stay in use where another key has taken an id over, which is reported',
      "if (known !== undefined) checkSameKey('secrets', [id, key], [id, known]);",
      '',
    ],
    [
      'new objects of the same keys end what is derived from them',
      'that are the same leave what is derived from them in use',
      'known ?? key',
      'key',
    ],
  ),
  ...inFile(
    'lib/core/payload/offload.ts',
    E2E,
    [
      'any bytes of a blob are sent',
      'that is that of another attempt',
      '.equals(sha256)',
      ".equals(createHash('sha256').update(body).digest())",
    ],
    [
      'a blob of another store is looked for',
      'without the blob store, or with another one',
      'Promise<Buffer> {\n    if (id !== this.store.id) throw',
      "Promise<Buffer> {\n    if (id === '') throw",
    ],
    [
      'bodies are put in clear beside their key',
      'has nothing in clear with secrets',
      ': sealedSegments(bytes, key);',
      ': segmentsOf(bytes);',
    ],
    [
      'a blob that is gone is reported as a store that is down',
      'that is gone: 409',
      "new UnreadableOutcome('blob_missing')",
      "new UnreadableOutcome('blob_unavailable')",
    ],
  ),
  ...inFile(
    'lib/core/payload/offload.ts',
    STREAMS,
    [
      'any bytes of a streamed blob are sent',
      'that is that of another key is no whole answer',
      ' || Buffer.compare(digest.digest(), sha256) !== 0',
      '',
    ],
    [
      'a streamed blob is read on when its reader has left',
      'is no longer read when its reader has left',
      'if (!this.isDone) this.controller.abort();',
      'void this.isDone;',
    ],
  ),
  ...inFile(
    'lib/core/payload/upload-places.ts',
    `${UNIT}/upload-places.test.ts`,
    [
      'any number of bodies is put at a time',
      'wait for a place in turn',
      'this.taken < this.max',
      'this.taken < Infinity',
    ],
    [
      'the last of those that wait begins first',
      'wait for a place in turn',
      'const [next] = this.queue;',
      'const next = [...this.queue].at(-1);',
    ],
    [
      'a body that begins at once is counted as one that has waited',
      'wait for a place in turn',
      'if (this.taken < this.max) this.taken += 1;',
      "if (this.taken < this.max) this.observer?.uploadWaited('begun', (this.taken += 1));",
    ],
    [
      'a body that fails keeps its place',
      'One that fails gives its place',
      '    try {\n      return await work();\n    } finally {\n      this.giveBack();\n    }',
      '    const result = await work();\n    this.giveBack();\n    return result;',
    ],
    [
      'a body that was refused gets a place',
      'does not take one later',
      'queue.delete(waiting);',
      "if (end !== 'timeout') queue.delete(waiting);",
    ],
    [
      'a body whose source fails waits on',
      'given up while it waits',
      "signal?.addEventListener('abort', giveUp);",
      '',
    ],
    [
      'a body whose source has failed waits for its time-out',
      'given up before it waits',
      'if (signal?.aborted === true) giveUp();',
      '',
    ],
  ),
  ...inFile('lib/core/payload/upload.ts', STREAMS, [
    'a writer that does not wait fills the memory',
    'because of a handler that does not wait',
    'this.source.readableLength > MAX_BACKLOG_BYTES',
    'this.source.readableLength < 0',
  ]),
  ...inFile('lib/transports/http/response/held-close.ts', STREAMS, [
    'who pipes into a response hears that its client has left while it is stored',
    'finds the outcome of /pipe later',
    'held.push(args);',
    'return emit(...args);',
  ]),
  ...inFile('lib/transports/http/response/raw-recorder.ts', STREAMS, [
    'a stream that has fewer bytes than it announced is stored as a whole',
    'announced',
    "isOtherLength(headers['content-length'], spool.bytes)",
    'spool.bytes < 0',
  ]),
  ...inFile('lib/core/util/held-end.ts', STREAMS, [
    'all of a streamed blob is sent before it is verified',
    'that is that of another key is no whole answer',
    'export const HELD_BYTES = 65_536;',
    'export const HELD_BYTES = 0;',
  ]),
  ...inFile('lib/core/util/held-end.ts', LIVE, [
    'all of a body is sent before its record is written',
    'reaches its client but for its end',
    'export const HELD_BYTES = 65_536;',
    'export const HELD_BYTES = 0;',
  ]),
  ...inFile(
    'lib/transports/http/response/live-body.ts',
    LIVE,
    [
      'a body that is not stored gets its end',
      'is cut where the blob store fails',
      'if (stored === undefined) {',
      'if (stored === undefined && this.isBehind) {',
    ],
    [
      'a client takes the beginning of a body for all of it',
      'by /longer is never whole',
      'if (spool.bytes + chunk.length > this.announced) this.cut();',
      'void this.announced;',
    ],
  ),
  ...inFile('lib/transports/http/http-execution.ts', LIVE, [
    'a superseded attempt sends the end of its body',
    'is cut where another attempt has its record',
    "if (settlement?.kind === 'own' && settlement.isLost !== true && spool?.isKept) return spool;",
    'if (spool?.isKept) return spool;',
  ]),
  ...inFile('lib/transports/http/response/send-response.ts', LIVE, [
    'over HTTP/2, what is cut looks whole',
    'Over HTTP/2, a large body',
    '  http2StreamOf(response)?.close(HTTP2_INTERNAL_ERROR);\n',
    '  void HTTP2_INTERNAL_ERROR;\n',
  ]),
  ...inFile(
    'lib/core/engine/packed-outcomes.ts',
    E2E,
    [
      'what cannot be packed is stored as it is',
      'A body that cannot be put',
      'return { ...final, outcome: NOT_KEPT };',
      'return final;',
    ],
    [
      'that an outcome cannot be packed is not reported',
      'A body that cannot be put',
      "services.events.emit({ type: 'pack_failed', ...subject, error, errorType: errorTypeOf(error) });",
      'void [subject, errorTypeOf(error)];',
    ],
    [
      'that an outcome cannot be read is not reported',
      'and the operation does not run again',
      "events.emit({ type: 'outcome_unreadable', operation, transport, recordKey, reason });",
      'void [events, operation, transport];',
    ],
    [
      'a changed outcome may be asked for again',
      'is that of another attempt: 500',
      "integrity: 'outcome_unreadable',",
      "integrity: 'outcome_unavailable',",
    ],
    [
      'the record of a missing blob is taken for a failure of the store',
      'that is gone: 409',
      'blob_missing: NOT_KEPT,',
      "blob_missing: 'outcome_unavailable',",
    ],
  ),
  ...inFile(
    'lib/blobs/file/file-blobs.ts',
    'test/integration/blobs/file.test.ts',
    [
      'a folder that is not mounted has no blobs',
      'a folder that is gone as unavailable, not as a missing blob',
      '      await access(this.temporary);\n',
      '',
    ],
    [
      'blobs are deleted a day early',
      'deletes a day once all of its blobs have been expired for a day',
      'new Date(now - 2 * DAY_MS)',
      'new Date(now - DAY_MS)',
    ],
  ),
  ...inFile('lib/blobs/shared/blob-source.ts', 'test/integration/blobs/file.test.ts', [
    'a source of another length is stored',
    'fileBlobs with fsync',
    'expected !== undefined && this.bytes !== expected',
    'expected !== undefined && this.bytes < 0',
  ]),
];
