import { describe, expect, it } from '@jest/globals';
import type { IdempotencyModuleOptions } from 'nestjs-idempotency';
import { Annotations, annotationsIn, noteOfEnd, traceIn } from '../../../support/internals/core.js';
import { callingApp, rejection } from '../../../support/nest/calling-app.js';

const SECRET = 'not-to-be-shown-by-any-error-or-log';
const NOTE = /^[!-~]{1,240}$/;
const TRACE = 'T'.repeat(34);

function annotations(holder: boolean | string, operation = true, secret?: string[]) {
  const tags = secret && { tags: { secret } };
  return new Annotations({ operation, holder, ...tags }, 'shop', (error) => {
    throw error;
  });
}

describe('the note of a record', () => {
  it.each(['charge', 'POST /a;b/~c<d*%', 'Überweisung 😀\n', '\ud800', 'p'.repeat(300)])(
    'has the operation %j, the process and the trace in 240 characters',
    (operation) => {
      const own = annotations('h'.repeat(64), true, [SECRET]);
      const note = own.noteOf(operation, 'k-1', 'T'.repeat(64));
      const ended = noteOfEnd(86_400_000) + note;
      expect(ended).toMatch(NOTE);
      expect(note).toMatch(/<$/);
      const { holder, trace, tookMs, operation: read, earlier } = annotationsIn(ended);
      expect([holder, trace, tookMs, earlier]).toEqual([
        'h'.repeat(64),
        'T'.repeat(64),
        86_400_000,
        [],
      ]);
      // A terminal gets no control character.
      const whole = operation.toWellFormed().replace('\n', '\ufffd');
      expect(operation.length > 64 ? read?.startsWith('ppp') : read === whole).toBe(true);
      expect(note).toContain(own.textOfOperation(operation));
      expect(note).not.toContain(own.textOfOperation(`${operation}x`));
      expect(note).not.toContain(own.textOfOperation(operation.slice(0, -1)));
    },
  );

  it('has a tag of the key, by each secret another one, and of each type and service', () => {
    const own = annotations(false, false, [SECRET, 'another-secret-of-32-characters!']);
    const [first = '', second = ''] = own.textsOfKey('k-1');
    expect(own.noteOf('charge', 'k-1', undefined)).toBe(`;${first}<`);
    expect(first).toMatch(/^~k[-\w]{11}~$/);
    expect(second).toMatch(/^~k[-\w]{11}~$/);
    expect(second).not.toBe(first);
    expect(own.textsOfKey('k-2')).not.toContain(first);
    const options = { operation: true, holder: true, tags: { secret: [SECRET] } };
    const other = new Annotations(options, 'billing', () => undefined);
    expect(other.textsOfKey('k-1')).not.toContain(first);
  });

  it('names the process by default', () => {
    const { holder } = annotationsIn(annotations(true).noteOf('charge', 'k', undefined));
    expect(holder).toMatch(new RegExp(`^[\\w.-]{1,53}:${String(process.pid)}$`));
  });

  it('leaves out a trace for which there is no room, and reports it', () => {
    const errors: Error[] = [];
    const own = new Annotations({ operation: true, holder: false }, undefined, (error) =>
      errors.push(error),
    );
    expect(own.noteOf('charge', 'k', ';'.repeat(22))).toBe(';~ocharge~<');
    expect(errors.map(String)).toEqual([expect.stringContaining('at most 64 characters')]);
  });

  it.each([
    ['of a telemetry alone', TRACE, TRACE],
    ['with all parts', `~d5~hx~t${TRACE};~ocharge~<1i~hy~tother<`, TRACE],
    ['without a trace', '~hx;~ocharge~<1i~hy~tother<', undefined],
  ])('%s tells the trace of the execution', (_, note, trace) => {
    expect(traceIn(note)).toBe(trace);
    expect(traceIn(undefined)).toBeUndefined();
  });

  it.each(['<', ';<', '~', 'a<b;c', '~d;~o%zz~<x<12345<99i', ';<1i~d~h%', '~dzzzzzzzzzzzzzz;'])(
    'of other writers, or cut, is read as far as it goes: %j',
    (note) => {
      const { earlier, tookMs } = annotationsIn(note);
      for (const { beganAt } of earlier) expect(Number.isSafeInteger(beganAt)).toBe(true);
      expect(tookMs).toBeUndefined();
    },
  );
});

describe('the option "annotate"', () => {
  it.each<[unknown, string]>([
    [{ holder: 'two words' }, 'annotate.holder'],
    [{ holder: 'h'.repeat(65) }, 'annotate.holder'],
    [{ holder: '' }, 'annotate.holder'],
    [{ operation: 'charge' }, 'annotate.operation'],
    [{ tags: SECRET }, 'annotate.tags'],
    [{ tags: {} }, 'annotate.tags.secret'],
    [{ tags: { secret: SECRET.slice(0, 31) } }, 'annotate.tags.secret'],
    [{ tags: { secret: [] } }, 'annotate.tags.secret'],
    [{ tags: { secret: [SECRET, SECRET] } }, 'annotate.tags.secret'],
    [{ tags: { secret: SECRET, secrets: [] } }, 'annotate.tags'],
    [{ tag: { secret: SECRET } }, 'annotate'],
    ['yes', 'annotate'],
  ])('stops the start if it is invalid, and shows no secret: %#', async (annotate, option) => {
    const options = { annotate } as Partial<IdempotencyModuleOptions>;
    const error = await rejection(callingApp({}, options));
    expect(error).toMatchObject({ code: 'idempotency_options_invalid' });
    expect(String(error)).toContain(option);
    expect(String(error)).not.toContain(SECRET.slice(0, 31));
  });
});
