import { describe, expect, it } from '@jest/globals';
import { keepResponses, keepSuccesses } from 'nestjs-idempotency';
import { asksToKeep } from '../../../support/internals/core/operation.js';

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
  it('decides', () => {
    expect(asksToKeep(() => true, keepResponses, { status: 500 })).toBe(true);
    expect(asksToKeep(() => false, keepResponses, { status: 200 })).toBe(false);
  });

  it.each([
    [201, true],
    [500, false],
  ])('that throws falls back to the default: %d → %s', (status, kept) => {
    const policy = () => {
      throw new Error('a bug');
    };
    expect(asksToKeep(policy, keepResponses, { status })).toBe(kept);
  });
});
