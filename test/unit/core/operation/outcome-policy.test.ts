import { beforeEach, describe, expect, it } from '@jest/globals';
import { keepResponses, keepSuccesses } from 'nestjs-idempotency';
import { asksToKeep } from '../../../support/internals/core.js';

describe('the policy of HTTP', () => {
  it('keeps every response to this request, except those that ask for a retry', () => {
    const statuses = Array.from({ length: 500 }, (_, index) => index + 100);
    const released = statuses.filter((status) => !keepResponses({ status }));
    const from500 = statuses.filter((status) => status >= 500);
    expect(released).toEqual([401, 403, 408, 412, 425, 429, ...from500]);
  });

  it('does not depend on whether a response was returned or thrown', () => {
    expect(keepResponses({ status: 404, error: new Error('not found') })).toBe(true);
    expect(keepResponses({ status: 503, error: new Error('down') })).toBe(false);
  });
});

describe('the policy of calls', () => {
  it('keeps what returned, and releases what threw', () => {
    expect(keepSuccesses({})).toBe(true);
    expect(keepSuccesses({ error: new Error('failed') })).toBe(false);
  });
});

describe('a custom policy', () => {
  const failed: unknown[][] = [];
  const observer = { optionFailed: (...args: unknown[]) => void failed.push(args) };
  beforeEach(() => {
    failed.length = 0;
  });

  it('decides', () => {
    expect(asksToKeep(() => true, { status: 500 }, observer)).toBe(true);
    expect(asksToKeep(() => false, { status: 200 }, observer)).toBe(false);
    expect(failed).toEqual([]);
  });

  it.each([201, 500])('that throws keeps the outcome, and is reported: %d', (status) => {
    const bug = new Error('a bug');
    const policy = () => {
      throw bug;
    };
    expect(asksToKeep(policy, { status }, observer)).toBe(true);
    expect(failed).toEqual([['outcome.keep', bug]]);
  });

  it.each([
    [undefined, 'undefined'],
    [null, 'null'],
    [0, 'a number'],
    ['', 'a string'],
    [Promise.resolve(false), 'a Promise'],
    [Promise.reject(new Error('not awaited')), 'a Promise'],
    [new Boolean(false), 'a Boolean'],
  ])('that returns %p keeps the outcome, and is reported by the type', (result, type) => {
    expect(asksToKeep((() => result) as never, { status: 500 }, observer)).toBe(true);
    const message = expect.stringMatching(
      `^The function .* "outcome.keep" must .* returned ${type}\\.$`,
    );
    expect(failed).toMatchObject([['outcome.keep', { message }]]);
  });
});
