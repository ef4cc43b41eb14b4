import { afterEach, describe, expect, it } from '@jest/globals';
import { jsonCodec } from 'nestjs-idempotency';
import { messagePackCodec } from 'nestjs-idempotency/messagepack';
import { kept, rejection } from './support.js';

const TYPES = [
  ...['Duration', 'Instant', 'PlainDate', 'PlainDateTime', 'PlainMonthDay', 'PlainTime'],
  ...['PlainYearMonth', 'ZonedDateTime'],
];

/** As a polyfill has it: a tag, `toJSON`, `toString` and `from`. */
function standIn(name: string) {
  return class {
    readonly parts: readonly unknown[];
    constructor(...parts: readonly unknown[]) {
      this.parts = parts;
    }

    static from(text: string) {
      return new this(text);
    }

    get [Symbol.toStringTag]() {
      return `Temporal.${name}`;
    }

    toString() {
      return String(this.parts[0]);
    }

    toJSON() {
      return this.toString();
    }
  };
}

type TemporalGlobal = Record<string, new (...parts: unknown[]) => object>;
const given = (globalThis as { Temporal?: unknown }).Temporal;
const setGlobal = (value: unknown) => {
  Object.defineProperty(globalThis, 'Temporal', { value, configurable: true, writable: true });
};
afterEach(() => {
  setGlobal(given);
});

describe.each(TYPES)('a Temporal.%s', (name) => {
  const Type = standIn(name);
  const value = { at: [new Type('text')] };

  it('is refused by JSON, and a text where that is chosen', () => {
    expect(rejection(jsonCodec(), value).message).toMatch(
      `value.at[0] is a Temporal.${name}, which JSON would lose.`,
    );
    expect(kept(jsonCodec({ dates: 'text' }), value)).toEqual({ at: ['text'] });
  });

  it('is refused by MessagePack where it is not of the global Temporal', () => {
    for (const other of [undefined, {}, { [name]: standIn(name) }]) {
      setGlobal(other);
      expect(rejection(messagePackCodec(), value).message).toMatch(
        `value.at[0] is a Temporal.${name} that is not of the global Temporal`,
      );
    }
  });

  it('is an error, and no other value, where the process that reads it has none', () => {
    setGlobal({ [name]: Type });
    const bytes = messagePackCodec().encode(value);
    setGlobal(undefined);
    expect(() => messagePackCodec().decode(bytes)).toThrow(/which this process does not have/);
  });
});

describe('MessagePack keeps', () => {
  it.each(['Instant', 'PlainDate'])('a Temporal.%s of the global Temporal', (name) => {
    const Type = standIn(name);
    setGlobal({ [name]: Type });
    const read = kept(messagePackCodec(), new Map([['at', new Type('2026-11-29')]])).get('at');
    expect(read).toBeInstanceOf(Type);
    expect(read).toMatchObject({ parts: ['2026-11-29'] });
  });

  it('each field of a duration, and the very instant, zone and calendar of a zoned time', () => {
    const [Duration, Zoned] = [standIn('Duration'), standIn('ZonedDateTime')];
    setGlobal({ Duration, ZonedDateTime: Zoned });
    const duration = Object.assign(new Duration(), {
      ...{ years: 0, months: 0, weeks: 0, days: 0, hours: 0, minutes: 90, seconds: 61 },
      ...{ milliseconds: 1_500, microseconds: 0, nanoseconds: 1 },
    });
    const zoned = Object.assign(new Zoned(), {
      ...{ epochNanoseconds: 8_640_000_000_000_000_000_000n, timeZoneId: 'Europe/Berlin' },
      calendarId: 'hebrew',
    });
    const [readDuration, readZoned] = kept(messagePackCodec(), [duration, zoned]);
    expect(readDuration).toMatchObject({ parts: [0, 0, 0, 0, 0, 90, 61, 1_500, 0, 1] });
    expect(readZoned).toMatchObject({
      parts: [8_640_000_000_000_000_000_000n, 'Europe/Berlin', 'hebrew'],
    });
  });

  it('a URL, which JSON refuses unless it may be a text', () => {
    const value = { to: new URL('https://example.com/a?b=ü') };
    const read = kept(messagePackCodec(), value);
    expect(read.to).toBeInstanceOf(URL);
    expect(read.to.href).toBe(value.to.href);
    expect(rejection(jsonCodec(), value).message).toMatch(
      'value.to is a URL, which JSON would lose',
    );
    expect(kept(jsonCodec({ dates: 'text' }), value)).toEqual({ to: value.to.href });
  });

  const real = given as TemporalGlobal | undefined;
  const ofNode = real === undefined ? it.skip : it;
  ofNode('the values of Node’s own Temporal', () => {
    const { from } = { from: (name: string, text: string) => (real![name] as any).from(text) };
    const values = [
      from('Duration', 'PT90M61.5S'),
      from('Instant', '2026-11-29T00:00:00.000000001Z'),
      from('PlainDate', '2026-11-29[u-ca=hebrew]'),
      from('PlainDateTime', '2026-11-29T10:00:00.5'),
      from('PlainMonthDay', '11-29'),
      from('PlainTime', '10:00'),
      from('PlainYearMonth', '2026-11'),
      from('ZonedDateTime', '2026-10-25T02:30:00+01:00[Europe/Berlin]'),
    ];
    const read = kept(messagePackCodec(), values);
    expect(read.map(String)).toEqual(values.map(String));
    expect(read.map((value) => value.constructor)).toEqual(
      values.map((value) => value.constructor),
    );
  });
});
