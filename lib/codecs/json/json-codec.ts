import type { OutcomeCodec } from '../../core/record/outcome-codec.js';
import { asBuffer } from '../../core/util/as-buffer.js';
import { ValueNotStorableError } from '../../core/util/errors.js';
import { checkChoice, checkNames } from '../../core/util/option-checks.js';
import { JsonForm, type JsonDates } from './json-form.js';

/** What {@link jsonCodec} can be told. */
export interface JsonCodecOptions {
  /**
   * `'text'` writes Dates as their ISO 8601 text, which is what every caller gets then; `'refuse'` makes them an error.
   * @defaultValue `'refuse'`
   */
  readonly dates?: JsonDates;
}

const NAMES: ReadonlySet<string> = new Set<keyof JsonCodecOptions>(['dates']);

/**
 * Values as JSON. What JSON would lose is refused with an error that names the place: BigInt, Date, Map, Set, binary data,
 * undefined items, numbers that are not finite, functions, symbols, circles, and objects that hold something elsewhere
 * than in their members (an Error, a RegExp, a Promise).
 *
 * Members that are undefined are left out, -0 becomes 0, instances become plain objects, and an object with a `toJSON`
 * becomes what that returns.
 *
 * @throws {@link IdempotencyOptionsError} for options that it does not know.
 */
export function jsonCodec(options: JsonCodecOptions = {}): OutcomeCodec {
  checkNames('jsonCodec()', options, NAMES);
  const { dates = 'refuse' } = options;
  checkChoice('jsonCodec.dates', dates, ['refuse', 'text']);
  return Object.freeze({
    name: 'json',
    encode(value: unknown): Uint8Array {
      const form = new JsonForm(dates).of(value);
      if (form === undefined) {
        throw new ValueNotStorableError('value is undefined, for which JSON has no text.');
      }
      return Buffer.from(JSON.stringify(form));
    },
    decode(bytes: Uint8Array): unknown {
      const text = asBuffer(bytes).toString();
      try {
        return JSON.parse(text);
      } catch {
        // Not the cause: its message quotes the text.
        throw new SyntaxError('The stored value is no JSON.');
      }
    },
  });
}

/** The default, and what every process can read. */
export const JSON_CODEC = jsonCodec();
