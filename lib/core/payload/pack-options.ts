import { types } from 'node:util';
import { isSettings, throwOptionError } from '../options/option-checks.js';
import type { Duration, InMilliseconds } from '../options/duration.js';
import {
  choice,
  duration,
  integer,
  resolveGroup,
  type Field,
  type Group,
} from '../options/option-schema.js';
import {
  dictionaryOf,
  isAvailable,
  type Dictionaries,
  type Dictionary,
  type ResolvedCompressionOptions,
} from './compression.js';
import { ALGORITHMS } from './frame.js';

/** How outcomes are compressed. */
export interface CompressionOptions {
  /**
   * `'deflate'` is read by every version of Node; `'brotli'` too, and makes what is larger than 16 KB smaller. `'zstd'` is
   * the fastest, and needs Node 22.15 or later in every process that reads the store. Records say how they are compressed:
   * a change of this option leaves all of them readable.
   * @defaultValue 'deflate'
   */
  readonly algorithm?: 'deflate' | 'brotli' | 'zstd';
  /** Smaller outcomes are not compressed: header and body, in bytes. @defaultValue 1_024, from 64 to 67_108_864 */
  readonly thresholdBytes?: number;
  /**
   * How much time is spent for a smaller result: up to 9 with `'deflate'`, 11 with `'brotli'`, 22 with `'zstd'`.
   * @defaultValue 1, from 1 to 22
   */
  readonly level?: number;
}

/** Texts that outcomes have in common, so that also small ones become smaller. */
export interface DictionariesOptions {
  /**
   * The id of the dictionary with which outcomes are compressed from now on; without it, dictionaries only read. Add one
   * in all processes first, and set this then.
   */
  readonly write?: number;
  /** By an id from 1 to 255: 1 to 32,768 bytes, of which the end is best. An id is never given to another dictionary. */
  readonly byId: Readonly<Record<number, Uint8Array>>;
}

/** When bodies of outcomes go to the blob store. */
export interface OffloadOptions {
  /**
   * A larger body goes to the blob store, and its record has a pointer. Bytes.
   * @defaultValue 262_144, from 0 to 67_108_864
   */
  readonly aboveBytes?: number;
  /**
   * The largest body that goes to the blob store, in bytes. Of a larger one, only that the operation is done is kept.
   * @defaultValue 1_073_741_824, from 0 to 1_099_511_627_776
   */
  readonly maxBytes?: number;
  /**
   * How long the blob store may take for a body. Of one that is streamed: how long neither the handler delivers a byte nor
   * the blob store takes one; all of it has to end within `lease.maxExecution`. Then only that the operation is done is kept.
   * @defaultValue '1m', from '100ms' to '1h'
   */
  readonly putTimeout?: Duration;
  /**
   * How long a replay waits for a body, and for each part of one that is streamed. Then it gets a 503 or, if its head has
   * left, a broken connection.
   * @defaultValue '10s', from '100ms' to '1h'
   */
  readonly getTimeout?: Duration;
  /**
   * When the first client gets a body that is streamed. `'stored-first'`: once all of it is stored. `'hold-last'`: while it is
   * stored, but for its last 64 KiB, which follow once its outcome is stored. If that fails, the connection breaks: no client
   * has a whole response that is not stored. Where a client could not tell that it broke, as over HTTP/1.0, it is stored
   * first.
   * @defaultValue 'stored-first'
   */
  readonly delivery?: 'stored-first' | 'hold-last';
}

export type ResolvedOffload = InMilliseconds<Required<OffloadOptions>>;

/** How one outcome is packed. */
export interface ResolvedPackOptions {
  readonly compression: false | ResolvedCompressionOptions;
  /** `undefined` where the keys decide. */
  readonly encryption?: boolean;
  readonly offload: false | ResolvedOffload;
  /** The most that is held in memory, and stored in a record. */
  readonly maxBytes: number;
  /** Milliseconds from completion. `undefined`: as long as the record. */
  readonly bodyRetention?: number;
}

/** The most that any `outcome.maxBytes` lets be held in memory. */
export const MAX_HELD_BYTES = 67_108_864;

/** Whether a body goes to the blob store, if there is one. */
export function isOffloaded(bytes: number, { offload, maxBytes }: ResolvedPackOptions): boolean {
  return offload !== false && bytes > Math.min(offload.aboveBytes, maxBytes);
}

const MAX_LEVEL = { deflate: 9, brotli: 11, zstd: 22 } as const;

/** Deflate looks back no further. */
const MAX_DICTIONARY_BYTES = 32_768;

export const COMPRESSION: Group<CompressionOptions, ResolvedCompressionOptions> = {
  fields: {
    algorithm: {
      ...choice(ALGORITHMS, { default: 'deflate' }),
      check: (option, value) => {
        choice(ALGORITHMS, { default: 'deflate' }).check(option, value);
        if (isAvailable(value as (typeof ALGORITHMS)[number])) return;
        const has = `an algorithm that Node ${process.version} has: 'deflate' or 'brotli'. 'zstd' needs Node 22.15 or later in every process that uses the store`;
        throwOptionError(option, has, value);
      },
    },
    thresholdBytes: integer({ default: 1_024, min: 64, max: 67_108_864 }),
    level: integer({ default: 1, min: 1, max: 22 }),
  },
  isSwitched: true,
  check: ({ algorithm, level }) => {
    if (level <= MAX_LEVEL[algorithm]) return;
    const range = `at most ${MAX_LEVEL[algorithm]} with "${algorithm}"`;
    throwOptionError('outcome.compression.level', range, level);
  },
};

export const OFFLOAD: Group<OffloadOptions, ResolvedOffload> = {
  fields: {
    aboveBytes: integer({ default: 262_144, min: 0, max: 67_108_864 }),
    maxBytes: integer({ default: 1_073_741_824, min: 0, max: 1_099_511_627_776 }),
    putTimeout: duration({ default: '1m', min: '100ms', max: '1h' }),
    getTimeout: duration({ default: '10s', min: '100ms', max: '1h' }),
    delivery: choice(['stored-first', 'hold-last'], { default: 'stored-first' }),
  },
  canBeOff: true,
};

/** Puts of files share Node's four threads, and one to S3 holds 24 MiB: so many keep both busy, in less than 400 MiB. */
export const DEFAULT_MAX_UPLOADS = 16;

export const DEFAULT_OFFLOAD = resolveGroup('offload', OFFLOAD);

export const DICTIONARIES: Field<DictionariesOptions> & { readonly defaultText: string } = {
  defaultText: 'none',
  places: ['module'],
  check: (option, given) => void dictionariesOf(option, given),
  read: (given) => dictionariesOf('outcome.dictionaries', given),
};

function dictionariesOf(option: string, given: unknown): Dictionaries {
  const { write, byId, ...others } = isSettings(given) ? given : {};
  if (!isSettings(byId) || Object.keys(others).length > 0) {
    throwOptionError(option, 'an object with "byId" and, for writers, "write"', given);
  }
  const dictionaries = new Map<number, Dictionary>();
  for (const [name, bytes] of Object.entries(byId)) {
    const id = Number(name);
    const length = types.isUint8Array(bytes) ? bytes.length : 0;
    const isId = Number.isInteger(id) && id >= 1 && id <= 255;
    if (!isId || length === 0 || length > MAX_DICTIONARY_BYTES) {
      const each = `a Uint8Array of 1 to ${MAX_DICTIONARY_BYTES} bytes, by an id from 1 to 255`;
      throwOptionError(`${option}.byId`, each, `${name}: ${length} bytes`);
    }
    dictionaries.set(id, dictionaryOf(id, Uint8Array.from(bytes as Uint8Array)));
  }
  const chosen = dictionaries.get(write as number);
  if (write !== undefined && chosen === undefined) {
    throwOptionError(`${option}.write`, 'the id of a dictionary in "byId"', write);
  }
  return { write: chosen, byId: dictionaries };
}
