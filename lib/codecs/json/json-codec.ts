import { types } from 'node:util';
import type { OutcomeCodec } from '../../core/record/outcome-codec.js';
import { asBuffer } from '../../core/util/as-buffer.js';
import { ValueNotStorableError } from '../../core/util/errors.js';
import { checkChoice, checkNames } from '../../core/util/option-checks.js';
import { ValueEncoder, type FormatLimits, type Members } from '../plain/value-encoder.js';

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
      const form = new JsonEncoder(dates).of(value);
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

/** What becomes of Dates: an error, or their ISO 8601 text. */
type JsonDates = 'refuse' | 'text';

const LIMITS: FormatLimits = { format: 'JSON', maxDepth: 1000 };

const BY_MESSAGEPACK = 'messagePackCodec() of nestjs-idempotency/messagepack keeps it';

/** What `JSON.stringify` writes so that `JSON.parse` gives the same again. */
export class JsonEncoder extends ValueEncoder {
  constructor(private readonly dates: JsonDates) {
    super(LIMITS);
  }

  protected override text(value: string): string {
    return value;
  }

  protected override number(value: number): number {
    return Number.isFinite(value)
      ? value
      : this.throwNotStorable(
          'a number that is not finite',
          `${BY_MESSAGEPACK}; JSON can hold null or a text.`,
        );
  }

  protected override bigint(): never {
    return this.throwNotStorable('a BigInt', `${BY_MESSAGEPACK}; JSON can hold its text.`);
  }

  protected override hole(): never {
    return this.throwNotStorable(
      'an undefined item of an array',
      `${BY_MESSAGEPACK}; JSON can hold null in its place.`,
    );
  }

  protected override plainObject(members: Members): Members {
    return members;
  }

  protected override extension(value: object): string | undefined {
    if (types.isDate(value)) return this.date(value);
    if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) {
      return this.throwNotStorable(
        'binary data',
        `${BY_MESSAGEPACK}, if it is a Buffer or a Uint8Array; JSON can hold its Base64 text.`,
      );
    }
    if ((types.isMap(value) || types.isSet(value)) && !('toJSON' in value)) {
      return this.throwNotStorable(
        types.isMap(value) ? 'a Map' : 'a Set',
        `${BY_MESSAGEPACK}; JSON can hold an array of what is in it.`,
      );
    }
    return undefined;
  }

  private date(value: Date): string {
    if (this.dates === 'refuse') {
      this.throwNotStorable(
        'a Date',
        `${BY_MESSAGEPACK}; jsonCodec({ dates: 'text' }) writes Dates as texts.`,
      );
    }
    const instant = Date.prototype.getTime.call(value);
    if (Number.isNaN(instant))
      this.throwNotStorable('a Date that is invalid', `${BY_MESSAGEPACK}.`);
    return new Date(instant).toISOString();
  }
}
