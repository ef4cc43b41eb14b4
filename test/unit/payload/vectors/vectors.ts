import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { staticKeys, type SecretKeys } from 'nestjs-idempotency';
import { fileBlobs } from 'nestjs-idempotency/blobs/file';
import { blobName } from 'nestjs-idempotency/store';
import { nodeClock, type Outcome } from '../../../support/internals/core.js';
import {
  ALGORITHMS,
  DEFAULT_OFFLOAD,
  encodePointer,
  isAvailable,
  OutcomeTransform,
  type Algorithm,
  type OutcomeBinding,
} from '../../../support/internals/payload.js';
import { optionsOf, type PackOptions, OWNER } from '../pack-options.js';

/** All bytes are in hex. */
export interface Vectors {
  readonly key: string;
  readonly dictionary: string;
  readonly outcomes: readonly {
    readonly name: string;
    readonly algorithm?: Algorithm;
    readonly binding: OutcomeBinding;
    readonly header: string;
    readonly body: string;
    readonly frame: string;
  }[];
  /** Outcomes whose body is in a blob, and that blob. */
  readonly blobs: readonly (Vectors['outcomes'][number] & { readonly blob: string })[];
  readonly pointers: readonly (Readonly<Record<string, string | number>> & {
    readonly pointer: string;
  })[];
}

const KEY = Buffer.from(Array.from({ length: 32 }, (_, index) => 0xff - index));
const DICTIONARY = Buffer.from('{"id":"ord_","amount":,"currency":"EUR","state":"paid"}');

export const BINDING = {
  recordKey: 'JxI6dV6ZxX0rQ1vP7t5kqY3mB8uW2nLfH4cGsOaEo9w',
  state: 'completed',
  fingerprint: '3q2-7wAAAAAAAAAAAAAAAA',
} as OutcomeBinding;
const UNBOUND = { ...BINDING, state: 'failed', fingerprint: '-' } as OutcomeBinding;

const ONE_ORDER = '{"id":"ord_1","amount":1250,"currency":"EUR","state":"paid"}';
const OUTCOME = {
  header: '{"status":201,"headers":{"content-type":"application/json"}}',
  body: Buffer.from(`[${Array.from({ length: 6 }, () => ONE_ORDER).join()}]`),
};

/** The same salt and nonces each time: no use in production, where a repeated nonce gives the content away. */
const clock = Object.assign(Object.create(nodeClock) as typeof nodeClock, {
  randomFill: (bytes: Uint8Array) => {
    for (const at of bytes.keys()) bytes[at] = at & 0xff;
  },
});

export const KEYS = staticKeys({ current: '2026-11', keys: { '2026-11': KEY } });

/** A blob store in a folder of its own, for one blob. */
export async function storeInFolder() {
  const directory = await mkdtemp(join(tmpdir(), 'idempotency-vectors-'));
  const store = fileBlobs({ directory, fsync: false });
  await store.open();
  const name = blobName(OWNER.retentionMs, BINDING.recordKey, OWNER.token);
  const signal = new AbortController().signal;
  return {
    store,
    write: (bytes: Buffer) =>
      store.put(name, Readable.from([bytes]), { expiresAt: new Date(Date.now() + 1e7), signal }),
    read: async () => buffer((await store.get(name, { signal }))!),
    remove: async () => {
      await store.close();
      await rm(directory, { recursive: true });
    },
  };
}

/** All kinds of frames that this version of Node can write. */
export async function madeVectors(): Promise<Vectors> {
  const frameOf = async (
    secrets: SecretKeys | undefined,
    given: PackOptions,
    outcome: Outcome,
    binding = BINDING,
  ) => {
    const options = optionsOf(given);
    const transform = new OutcomeTransform(secrets, clock, undefined, options.dictionaries);
    await transform.open();
    const { body } = await transform.pack(outcome, binding, options, OWNER);
    return Buffer.from(body).toString('hex');
  };
  const outcomes: Vectors['outcomes'][number][] = [];
  for (const secrets of [undefined, KEYS]) {
    const sealed = secrets === undefined ? 'in clear' : 'encrypted';
    const add = async (
      name: string,
      given: PackOptions,
      outcome: Outcome,
      binding = BINDING,
      algorithm?: Algorithm,
    ) => {
      const frame = await frameOf(secrets, given, outcome, binding);
      const body = Buffer.from(outcome.body).toString('hex');
      const { header } = outcome;
      outcomes.push({
        name: `${sealed}, ${name}`,
        ...(algorithm && { algorithm }),
        ...{ binding, header, body, frame },
      });
    };
    if (secrets === undefined) await add('like a frame', {}, { header: '2', body: Buffer.of(7) });
    else {
      await add('not compressed', {}, OUTCOME);
      await add(
        'a failure without content and body',
        {},
        { header: '', body: Buffer.of() },
        UNBOUND,
      );
    }
    for (const algorithm of ALGORITHMS.filter(isAvailable)) {
      const compression = { algorithm, thresholdBytes: 64 };
      await add(algorithm, { compression }, OUTCOME, BINDING, algorithm);
    }
    const withDictionary = {
      compression: { thresholdBytes: 64 },
      dictionaries: { write: 7, byId: { 7: DICTIONARY } },
    };
    await add('a dictionary', withDictionary, OUTCOME, BINDING, 'deflate');
  }
  const blobs: Vectors['blobs'][number][] = [];
  for (const secrets of [undefined, KEYS]) {
    for (const algorithm of [undefined, 'deflate'] as const) {
      const compression = algorithm !== undefined && { algorithm, thresholdBytes: 64 };
      const options = {
        ...optionsOf({ compression }),
        offload: { ...DEFAULT_OFFLOAD, aboveBytes: 0 },
      };
      const inFolder = await storeInFolder();
      const transform = new OutcomeTransform(secrets, clock, undefined, undefined, inFolder.store);
      await transform.open();
      const { body } = await transform.pack(OUTCOME, BINDING, options, OWNER);
      blobs.push({
        name: `${secrets ? 'encrypted' : 'in clear'}, ${algorithm ?? 'not compressed'}`,
        ...(algorithm && { algorithm }),
        ...{ binding: BINDING, header: OUTCOME.header, body: OUTCOME.body.toString('hex') },
        frame: Buffer.from(body).toString('hex'),
        blob: (await inFolder.read()).toString('hex'),
      });
      await transform.close();
      await inFolder.remove();
    }
  }
  const blob = {
    ...{ store: 's3', name: 'd2/JxI6dV6ZxX0r/3q2-7w', clearBytes: 5_000_000_000, storedBytes: 7 },
    segmentBytes: 65_536,
  };
  const pointers = [{}, { key: KEY.toString('hex') }].map((key) => ({
    ...{ ...blob, sha256: 'ab'.repeat(32), ...key },
    pointer: encodePointer({
      ...{ ...blob, sha256: Buffer.alloc(32, 0xab) },
      ...('key' in key && { key: KEY }),
    }).toString('hex'),
  }));
  return {
    key: KEY.toString('hex'),
    dictionary: DICTIONARY.toString('hex'),
    outcomes,
    blobs,
    pointers,
  };
}
