import { types } from 'node:util';
import { PlainForm, type FormatLimits, type Members } from '../plain/plain-form.js';

/** What becomes of Dates: an error, or their ISO 8601 text. */
export type JsonDates = 'refuse' | 'text';

const LIMITS: FormatLimits = { format: 'JSON', maxDepth: 1000 };

const BY_MESSAGEPACK = 'messagePackCodec() of nestjs-idempotency/messagepack keeps it';

/** What `JSON.stringify` writes so that `JSON.parse` gives the same again. */
export class JsonForm extends PlainForm {
  constructor(private readonly dates: JsonDates) {
    super(LIMITS);
  }

  protected override text(value: string): string {
    return value;
  }

  protected override number(value: number): number {
    return Number.isFinite(value)
      ? value
      : this.refuse(
          'a number that is not finite',
          `${BY_MESSAGEPACK}; JSON can hold null or a text.`,
        );
  }

  protected override bigint(): never {
    return this.refuse('a BigInt', `${BY_MESSAGEPACK}; JSON can hold its text.`);
  }

  protected override gap(): never {
    return this.refuse(
      'an undefined item of an array',
      `${BY_MESSAGEPACK}; JSON can hold null in its place.`,
    );
  }

  protected override named(members: Members): Members {
    return members;
  }

  protected override special(value: object): string | undefined {
    if (types.isDate(value)) return this.date(value);
    if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) {
      return this.refuse(
        'binary data',
        `${BY_MESSAGEPACK}, if it is a Buffer or a Uint8Array; JSON can hold its Base64 text.`,
      );
    }
    if ((types.isMap(value) || types.isSet(value)) && !('toJSON' in value)) {
      return this.refuse(
        types.isMap(value) ? 'a Map' : 'a Set',
        `${BY_MESSAGEPACK}; JSON can hold an array of what is in it.`,
      );
    }
    return undefined;
  }

  private date(value: Date): string {
    if (this.dates === 'refuse') {
      this.refuse(
        'a Date',
        `${BY_MESSAGEPACK}; jsonCodec({ dates: 'text' }) writes Dates as texts.`,
      );
    }
    const instant = Date.prototype.getTime.call(value);
    if (Number.isNaN(instant)) this.refuse('a Date that is invalid', `${BY_MESSAGEPACK}.`);
    return new Date(instant).toISOString();
  }
}
