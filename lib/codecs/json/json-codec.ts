import type { OutcomeCodec } from '../../core/record/outcome-codec.js';
import { asBuffer } from '../../core/util/as-buffer.js';
import { ValueNotStorableError } from '../../core/errors/errors.js';
import { choice, resolveOptions, type Schema } from '../../core/options/option-schema.js';
import { plainForm, tagOf, type Format, type Textual, type Walk } from '../plain/plain-form.js';

/** Options of {@link jsonCodec}. */
export interface JsonCodecOptions {
  /**
   * `'text'` writes Dates and Temporal values as ISO 8601 strings, and URLs as strings, which is also what callers get;
   * `'refuse'` rejects them with an error.
   * @defaultValue 'refuse'
   */
  readonly dates?: JsonDates;
}

export const OPTIONS: Schema<JsonCodecOptions, Required<JsonCodecOptions>> = {
  dates: choice(['refuse', 'text'], { default: 'refuse' }),
};

/**
 * Stores values as JSON. Rejects what JSON would lose, with an error that names the place: BigInt, Date, Temporal, URL,
 * Map, Set, binary data, undefined items, non-finite numbers, functions, symbols, circular references, and objects with state
 * outside of their properties (an Error, a RegExp, a Promise). Omits properties that are undefined, writes -0 as 0 and
 * instances as plain objects, and replaces an object that has `toJSON` by its result.
 * @throws {@link IdempotencyOptionsError} for unknown options.
 */
export function jsonCodec(options: JsonCodecOptions = {}): OutcomeCodec {
  const { dates } = resolveOptions('jsonCodec()', OPTIONS, options);
  const format = formatWith(dates);
  return Object.freeze({
    name: 'json',
    encode(value: unknown): Uint8Array {
      const form = plainForm(value, format);
      if (form === undefined) {
        throw new ValueNotStorableError('value is undefined, which JSON cannot represent.');
      }
      return Buffer.from(JSON.stringify(form));
    },
    decode(bytes: Uint8Array): unknown {
      const text = asBuffer(bytes).toString();
      try {
        return JSON.parse(text);
      } catch {
        // Without the cause: its message quotes the text.
        throw new SyntaxError('The stored value is not valid JSON.');
      }
    },
  });
}

type JsonDates = 'refuse' | 'text';

const lost = (what: string, remedy: string) => (_: unknown, walk: Walk) =>
  walk.reject(what, `messagePackCodec() of nestjs-idempotency/messagepack keeps it${remedy}`);

const NOT_FINITE = lost('a number that is not finite', '; JSON can hold null or a string.');
const DATE = lost('a Date', "; jsonCodec({ dates: 'text' }) writes Dates as strings.");
const INVALID_DATE = lost('an invalid Date', '.');
const BINARY = lost(
  'binary data',
  ', if it is a Buffer or a Uint8Array; JSON can hold it as a Base64 string.',
);
const MAP = lost('a Map', '; or convert it to an array.');
const SET = lost('a Set', '; or convert it to an array.');

/** What survives `JSON.stringify` and `JSON.parse`. */
const formatWith = (dates: JsonDates): Format => ({
  name: 'JSON',
  maxDepth: 1000,
  number: (value, walk) => (Number.isFinite(value) ? undefined : NOT_FINITE(value, walk)),
  bigint: lost('a BigInt', '; JSON can hold it as a string.'),
  hole: lost('an undefined item of an array', '; or use null instead.'),
  date: dates === 'text' ? isoText : DATE,
  bytes: BINARY,
  binary: BINARY,
  map: (map, walk) => ('toJSON' in map ? undefined : MAP(map, walk)),
  set: (set, walk) => ('toJSON' in set ? undefined : SET(set, walk)),
  textual: dates === 'text' ? (value) => value.toJSON() : rejectTextual,
});

function rejectTextual(value: Textual, walk: Walk): never {
  const remedy = "; jsonCodec({ dates: 'text' }) writes it as a string.";
  return lost(`a ${tagOf(value)}`, remedy)(value, walk);
}

function isoText(date: Date, walk: Walk): string {
  const instant = Date.prototype.getTime.call(date);
  return Number.isNaN(instant) ? INVALID_DATE(date, walk) : new Date(instant).toISOString();
}

/** The default, which every process can read. */
export const JSON_CODEC = jsonCodec();
