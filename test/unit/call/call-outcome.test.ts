import { describe, expect, it } from '@jest/globals';
import {
  FailureReplayedError,
  jsonCodec,
  OperationRejectedError,
  ValueNotStorableError,
  type OutcomeCodec,
} from 'nestjs-idempotency';
import type { Outcome } from 'nestjs-idempotency/store';
import { messagePackCodec } from 'nestjs-idempotency/messagepack';
import {
  decodeOutcome,
  encodeEmissions,
  encodeFailure,
  encodeThrown,
  encodeValue,
  VALUE_NOT_KEPT,
  valueFormat,
} from '../../support/internals/call.js';

const json = jsonCodec();
const messagePack = messagePackCodec();
const SECRET = 's3cret';

/** Reverses the bytes of a string; supports no other value. */
const reverse: OutcomeCodec = {
  name: 'reverse',
  encode(value) {
    if (typeof value !== 'string') throw new TypeError(`no text: ${String(value)}`);
    return Buffer.from(value).reverse();
  },
  decode(bytes) {
    if (bytes.length === 0) throw new TypeError(`no text, but ${SECRET}`);
    return Buffer.from(bytes).reverse().toString();
  },
};

function stored(outcome: Outcome | ValueNotStorableError): Outcome {
  if (outcome instanceof Error) throw outcome;
  return outcome;
}

function notStorable(outcome: Outcome | ValueNotStorableError): ValueNotStorableError {
  expect(outcome).toBeInstanceOf(ValueNotStorableError);
  return outcome as ValueNotStorableError;
}

function rejection(outcome: Outcome, codec: OutcomeCodec): OperationRejectedError {
  try {
    decodeOutcome(outcome, codec);
  } catch (error) {
    expect(error).toBeInstanceOf(OperationRejectedError);
    expect(error).toMatchObject({ code: 'idempotency_response_not_kept', retryable: false });
    return error as OperationRejectedError;
  }
  throw new Error('it was read');
}

describe('a failure whose message cannot be read', () => {
  it('is kept by its name and message', () => {
    const error = new RangeError('planned');
    const thrown = {
      valueOf: () => {
        throw new Error('a bug of the exception');
      },
      errorOf: () => undefined,
    };
    const failed: unknown[] = [];
    const observer = { optionFailed: (...args: unknown[]) => void failed.push(args) };
    expect(valueFormat(json, thrown).encodeFailure(error, observer)).toEqual(encodeFailure(error));
    expect(failed).toEqual([['response', new Error('a bug of the exception')]]);
  });

  it('is kept by its name and message if the codec cannot write it, which is reported', () => {
    const error = new RangeError('planned');
    const thrown = { valueOf: () => ({ value: 5n }), errorOf: () => undefined };
    const failed: unknown[] = [];
    const observer = { optionFailed: (...args: unknown[]) => void failed.push(args) };
    expect(valueFormat(json, thrown).encodeFailure(error, observer)).toEqual(encodeFailure(error));
    expect(failed).toEqual([['response', expect.any(ValueNotStorableError)]]);
  });
});

describe('the value of a call', () => {
  it.each<[string, unknown, OutcomeCodec, string]>([
    ['as JSON', { id: 7 }, json, '{"call":1,"kind":"value"}'],
    [
      'as MessagePack',
      new Map([[1, new Date(7)]]),
      messagePack,
      '{"call":1,"kind":"value","codec":"messagepack"}',
    ],
    ['by an own codec', 'paid', reverse, '{"call":1,"kind":"value","codec":"reverse"}'],
    ['undefined', undefined, json, '{"call":1,"kind":"undefined"}'],
    ['undefined, by any codec', undefined, reverse, '{"call":1,"kind":"undefined"}'],
    ['bytes', Buffer.from([0, 0xff, 0xc1]), json, '{"call":1,"kind":"bytes"}'],
    ['bytes, by any codec', Buffer.from('a'), reverse, '{"call":1,"kind":"bytes"}'],
    ['no bytes', Buffer.alloc(0), json, '{"call":1,"kind":"bytes"}'],
  ])('is kept: %s', (_, value, codec, header) => {
    const outcome = stored(encodeValue(value, codec));
    expect(outcome.header).toBe(header);
    expect(decodeOutcome(outcome, codec)).toStrictEqual({ kind: 'value', value });
  });

  it('keeps the bytes of the moment of writing', () => {
    const bytes = Buffer.from('paid');
    const outcome = stored(encodeValue(bytes, json));
    bytes.fill(0);
    const one = decodeOutcome(outcome, json) as { value: Buffer };
    one.value.fill(0);
    expect(decodeOutcome(outcome, json)).toEqual({ kind: 'value', value: Buffer.from('paid') });
  });

  it('comes back as a Buffer, whatever the class of the bytes', () => {
    class Bytes extends Uint8Array {}
    for (const bytes of [Uint8Array.of(7), Bytes.of(7)]) {
      const { value } = decodeOutcome(stored(encodeValue(bytes, json)), json) as { value: unknown };
      expect(value).toStrictEqual(Buffer.of(7));
    }
  });

  it('is read as JSON where it is JSON, whatever the codec is now', () => {
    const outcomes = [{ id: 7 }, undefined, Buffer.from('a')].map((value) =>
      stored(encodeValue(value, json)),
    );
    expect(outcomes.map((outcome) => decodeOutcome(outcome, messagePack))).toEqual([
      { kind: 'value', value: { id: 7 } },
      { kind: 'value', value: undefined },
      { kind: 'value', value: Buffer.from('a') },
    ]);
  });

  it('is not read by another codec: the message names both codecs and the remedy', () => {
    const outcome = stored(encodeValue(new Map(), messagePack));
    const { message } = rejection(outcome, json);
    expect(message).toContain('"messagepack"');
    expect(message).toContain('"json"');
    expect(message).toContain('Keep the former codec until its outcomes have expired');
  });

  it.each<[string, OutcomeCodec]>([
    ['JSON', json],
    ['MessagePack', messagePack],
  ])('is rejected when damaged %s, with the cause', (_, codec) => {
    const { header } = stored(encodeValue({ text: SECRET }, codec));
    const { message, cause } = rejection({ header, body: Buffer.from(`"${SECRET}`) }, codec);
    expect(message).toContain(`cannot be read by the codec "${codec.name}"`);
    expect(cause).toMatchObject({ message: expect.stringContaining('The stored value is no') });
    expect(message + String(cause)).not.toContain(SECRET);
  });

  it('is rejected when a custom codec cannot read it: only the cause has the reason', () => {
    const outcome = stored(encodeValue('', reverse));
    const { message, cause } = rejection(outcome, reverse);
    expect(message).toContain('cannot be read by the codec "reverse"');
    expect(message).not.toContain(SECRET);
    expect(cause).toMatchObject({ message: `no text, but ${SECRET}` });
  });

  describe('that cannot be kept', () => {
    it('reports where, why and what to do', () => {
      const error = notStorable(encodeValue({ list: [{ n: 7n }] }, json));
      expect(error.message).toMatch(
        /^The operation ran, but its return value cannot be stored: value\.list\[0\]\.n is a BigInt, .* messagePackCodec\(\)/,
      );
      expect(error.cause).toMatchObject({ code: 'idempotency_value_not_storable' });
    });

    it('does not print a custom codec’s message, which may contain the value', () => {
      const error = notStorable(encodeValue(Object('s3cret'), reverse));
      expect(error.message).toMatch(/^The operation ran, .* The codec "reverse" failed/);
      expect(error.message).not.toContain(SECRET);
      expect(error.cause).toMatchObject({ message: `no text: ${SECRET}` });
    });

    it.each<[string, unknown]>([
      ['a text', 'paid'],
      ['a promise', Promise.resolve(Buffer.from('a'))],
      ['nothing', undefined],
    ])('is rejected when a custom codec makes %s of it', (_, given) => {
      const codec = { ...reverse, encode: () => given as Uint8Array };
      expect(notStorable(encodeValue('paid', codec)).cause).toBeInstanceOf(TypeError);
    });

    it('is rejected when one of its getters throws', () => {
      const bug = new Error('planned');
      const value = {
        get price(): number {
          throw bug;
        },
      };
      expect(notStorable(encodeValue(value, json)).cause).toBe(bug);
    });
  });
});

describe('the emitted values of a stream', () => {
  const all = [{ id: 7 }, undefined, Buffer.from([0xc1, 0]), 'paid', null, Buffer.alloc(0), [1]];

  it.each([json, messagePack])('are kept in order, as $name', (codec) => {
    for (const values of [all, [], [undefined], [Buffer.from('a')], [{ id: 7 }]]) {
      const outcome = stored(encodeEmissions(values, codec));
      expect(decodeOutcome(outcome, codec)).toStrictEqual({ kind: 'emissions', values });
    }
  });

  it('are distinct from one value that is an array', () => {
    const one = decodeOutcome(stored(encodeValue([1, 2], json)), json);
    const two = decodeOutcome(stored(encodeEmissions([1, 2], json)), json);
    expect([one, two]).toEqual([
      { kind: 'value', value: [1, 2] },
      { kind: 'emissions', values: [1, 2] },
    ]);
  });

  it('have a short header, however many there are; the body counts them', () => {
    const none = Array.from({ length: 10_000 }, () => undefined);
    const { header, body } = stored(encodeEmissions(none, json));
    expect(header).toBe('{"call":1,"kind":"emissions"}');
    expect(body.length).toBe(50_000);
    expect(stored(encodeEmissions([1], messagePack)).header).toBe(
      '{"call":1,"kind":"emissions","codec":"messagepack"}',
    );
  });

  it('are read as JSON where they are JSON, whatever the codec is now; others are rejected', () => {
    expect(decodeOutcome(stored(encodeEmissions([{ id: 7 }], json)), reverse)).toEqual({
      kind: 'emissions',
      values: [{ id: 7 }],
    });
    const outcome = stored(encodeEmissions([1], messagePack));
    expect(rejection(outcome, json).message).toContain('"messagepack"');
  });

  it('cannot be kept if one of them cannot: the message names it', () => {
    const error = notStorable(encodeEmissions([1, { at: new Date() }, 3], json));
    expect(error.message).toMatch(
      /^The operation ran, but its emitted value 2 of 3 cannot be stored: value\.at is a Date/,
    );
  });

  const emitted = stored(encodeEmissions(['paid', 'sent'], json));
  const framedBytes = stored(encodeEmissions([Buffer.from('paid')], json));
  it.each<[string, Uint8Array]>([
    ['cut off in the middle of a part', emitted.body.subarray(0, -1)],
    ['cut off in front of a part', emitted.body.subarray(0, 13)],
    ['of unknown parts', Buffer.concat([emitted.body, Buffer.of(9, 0, 0, 0, 0)])],
    ['cut off in the middle of bytes', framedBytes.body.subarray(0, -1)],
    ['no parts at all', Buffer.from('"paid"')],
  ])('are rejected when the body is %s', (_, body) => {
    expect(rejection({ ...emitted, body }, json).message).toContain('cannot be read');
  });
});

describe('a failure', () => {
  it('is kept by its name and message, whatever the codec is', () => {
    const outcome = encodeFailure(new RangeError('no funds'));
    expect(outcome.header).toBe('{"call":1,"kind":"failure"}');
    for (const codec of [json, messagePack, reverse]) {
      const decoded = decodeOutcome(outcome, codec);
      expect(decoded).toEqual({ kind: 'failure', error: expect.any(FailureReplayedError) });
      expect(decoded).toMatchObject({
        error: { failure: { name: 'RangeError', message: 'no funds' } },
      });
    }
  });

  it.each<[string, unknown, OutcomeCodec]>([
    ['an object', { status: 'declined', reason: 7 }, json],
    ['a text', 'declined', json],
    ['undefined', undefined, json],
    ['bytes', Buffer.from('a'), json],
    ['what only MessagePack keeps', { at: new Date(7), amount: 7n }, messagePack],
  ])('is kept by a value that was thrown: %s', (_, value, codec) => {
    const outcome = stored(encodeThrown(value, codec));
    expect(decodeOutcome(outcome, codec)).toStrictEqual({ kind: 'thrown', value });
  });

  it('reports that its value cannot be kept', () => {
    expect(notStorable(encodeThrown({ amount: 7n }, json)).message).toMatch(
      /^The operation failed, and the value that it threw cannot be stored: value\.amount is a BigInt/,
    );
  });

  it('rejects a value that another codec wrote', () => {
    const outcome = stored(encodeThrown(new Date(7), messagePack));
    expect(rejection(outcome, json).message).toContain('"messagepack"');
  });
});

describe('an outcome that holds nothing', () => {
  const body = Buffer.from('"not mine"');

  it.each<[string, Outcome]>([
    ['was not kept', VALUE_NOT_KEPT],
    ['is of HTTP', { header: '[1,201,{}]', body }],
    ['is of a later format', { header: '{"call":2,"kind":"value"}', body }],
    ['is of an unknown kind', { header: '{"call":1,"kind":"stream"}', body }],
    ['has no kind', { header: '{"call":1}', body }],
    ['has a text for a header', { header: '"text"', body }],
    ['has null for a header', { header: 'null', body }],
    ['has no JSON for a header', { header: 'status=201', body }],
    ['has no header', { header: '', body }],
  ])('%s', (_, outcome) => {
    for (const codec of [json, messagePack]) {
      expect(rejection(outcome, codec).message).toBe(
        'The operation completed, but its value was not stored.',
      );
    }
  });

  it('names a codec that is not a string', () => {
    const outcome = { header: '{"call":1,"kind":"value","codec":7}', body };
    expect(rejection(outcome, json).message).toContain('was written by the codec 7');
  });
});
