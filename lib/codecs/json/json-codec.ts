import { types } from 'node:util';
import type { OutcomeCodec } from '../../core/record/outcome-codec.js';
import { asBuffer } from '../../core/util/as-buffer.js';
import { ValueNotStorableError } from '../../core/util/errors.js';
import { checkChoice, checkNames } from '../../core/util/option-checks.js';
import { ValueEncoder, type FormatLimits, type Members } from '../plain/value-encoder.js';

/** Options of {@link jsonCodec}. */
export interface JsonCodecOptions {
  /**
   * `'text'` writes Dates as ISO 8601 strings, which is also what callers get; `'refuse'` rejects them with an error.
   * @defaultValue `'refuse'`
   */
  readonly dates?: JsonDates;
}

const NAMES: ReadonlySet<string> = new Set<keyof JsonCodecOptions>(['dates']);

/**
 * Stores values as JSON. Rejects what JSON would lose, with an error that names the place: BigInt, Date, Map, Set,
 * binary data, undefined items, non-finite numbers, functions, symbols, circular references, and objects with state
 * outside of their properties (an Error, a RegExp, a Promise). Omits properties that are undefined, writes -0 as 0 and
 * instances as plain objects, and replaces an object that has `toJSON` by its result.
 * @throws {@link IdempotencyOptionsError} for unknown options.
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

/** The default, which every process can read. */
export const JSON_CODEC = jsonCodec();

type JsonDates = 'refuse' | 'text';

const LIMITS: FormatLimits = { format: 'JSON', maxDepth: 1000 };

const BY_MESSAGEPACK = 'messagePackCodec() of nestjs-idempotency/messagepack keeps it';

/** Converts a value to one that survives `JSON.stringify` and `JSON.parse`. */
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
          `${BY_MESSAGEPACK}; JSON can hold null or a string.`,
        );
  }

  protected override bigint(): never {
    return this.throwNotStorable('a BigInt', `${BY_MESSAGEPACK}; JSON can hold it as a string.`);
  }

  protected override hole(): never {
    return this.throwNotStorable(
      'an undefined item of an array',
      `${BY_MESSAGEPACK}; or use null instead.`,
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
        `${BY_MESSAGEPACK}, if it is a Buffer or a Uint8Array; JSON can hold it as a Base64 string.`,
      );
    }
    if ((types.isMap(value) || types.isSet(value)) && !('toJSON' in value)) {
      return this.throwNotStorable(
        types.isMap(value) ? 'a Map' : 'a Set',
        `${BY_MESSAGEPACK}; or convert it to an array.`,
      );
    }
    return undefined;
  }

  private date(value: Date): string {
    if (this.dates === 'refuse') {
      this.throwNotStorable(
        'a Date',
        `${BY_MESSAGEPACK}; jsonCodec({ dates: 'text' }) writes Dates as strings.`,
      );
    }
    const instant = Date.prototype.getTime.call(value);
    if (Number.isNaN(instant)) this.throwNotStorable('an invalid Date', `${BY_MESSAGEPACK}.`);
    return new Date(instant).toISOString();
  }
}
