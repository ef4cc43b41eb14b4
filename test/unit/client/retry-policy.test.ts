import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { transform } from '@swc/core';
import fc from 'fast-check';
import { retryAfterMs, fullJitterMs } from '../../support/internals/client.js';
import { projectRoot } from '../../support/project-root.js';

const now = Date.parse('Sun, 06 Nov 1994 08:49:07 GMT');

function asked(retryAfter: string, date?: string): number | undefined {
  const headers = new Headers({ 'retry-after': retryAfter });
  if (date !== undefined) headers.set('date', date);
  return retryAfterMs(headers, now);
}

describe('Retry-After', () => {
  it('is undefined where the response has none', () => {
    expect(retryAfterMs(new Headers(), now)).toBeUndefined();
  });

  it('is understood in seconds', () => {
    fc.assert(
      fc.property(fc.nat(1_000_000), (seconds) => {
        expect(asked(String(seconds))).toBe(seconds * 1000);
      }),
    );
  });

  it('is understood as a date, to the second', () => {
    fc.assert(
      fc.property(fc.nat(1_000_000), (seconds) => {
        const until = new Date(now + seconds * 1000).toUTCString();
        expect(asked(until)).toBe(seconds * 1000);
      }),
    );
  });

  it.each([
    ['IMF-fixdate', 'Sun, 06 Nov 1994 08:49:37 GMT'],
    ['the form of RFC 850', 'Sunday, 06-Nov-94 08:49:37 GMT'],
    ['the form of asctime', 'Sun Nov  6 08:49:37 1994'],
  ])('is understood in %s', (_, date) => {
    expect(asked(date)).toBe(30_000);
  });

  it('is the same in every time zone', async () => {
    const source = await readFile(join(projectRoot, 'lib/client/retry-policy.ts'), 'utf8');
    const { code } = await transform(source, { jsc: { parser: { syntax: 'typescript' } } });
    const script = `${code}
      const headers = new Headers({ 'retry-after': 'Sun Nov  6 08:49:37 1994' });
      console.log(retryAfterMs(headers, ${now}))`;
    const flags = ['--input-type=module', '--eval', script];
    const env = { ...process.env, NODE_OPTIONS: '', TZ: 'Asia/Kathmandu' };
    const { stdout } = await promisify(execFile)(process.execPath, flags, { env });
    expect(stdout).toBe('30000\n');
  });

  it("is measured by the server's clock, where the response has a Date", () => {
    const threeHoursOff = 'Sun, 06 Nov 1994 11:49:07 GMT';
    expect(asked('Sun, 06 Nov 1994 11:49:12 GMT', threeHoursOff)).toBe(5_000);
  });

  it('is zero where the date has passed', () => {
    expect(asked('Sun, 06 Nov 1994 08:00:00 GMT')).toBe(0);
  });

  it.each(['', 'soon', '-1', '1.5', '1e3', 'Sun, no such day', '2 s'])(
    'is ignored where it is invalid: "%s"',
    (value) => {
      expect(asked(value)).toBeUndefined();
    },
  );
});

const backoff = fc.record({
  backoffBaseMs: fc.integer({ min: 1, max: 10_000 }),
  backoffCapMs: fc.integer({ min: 1, max: 100_000 }),
});
const tries = fc.integer({ min: 1, max: 5_000 });
const drawn = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe('the pause between attempts', () => {
  it('is between zero and the step, which doubles up to the cap', () => {
    fc.assert(
      fc.property(backoff, tries, drawn, (settings, count, random) => {
        const pause = fullJitterMs(count, { ...settings, random: () => random });
        const { backoffBaseMs, backoffCapMs } = settings;
        const step = Math.min(backoffCapMs, backoffBaseMs * 2 ** Math.min(count - 1, 60));
        expect(pause).toBeGreaterThanOrEqual(0);
        expect(pause).toBeLessThan(step);
        expect(pause).toBeCloseTo(random * step, 6);
      }),
    );
  });

  it('is spread over the whole step', () => {
    const settings = { backoffBaseMs: 100, backoffCapMs: 10_000, random: Math.random };
    const tenths = new Set<number>();
    for (let draw = 0; draw < 2_000; draw += 1) {
      tenths.add(Math.floor(fullJitterMs(3, settings) / 40));
    }
    expect([...tenths].sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });
});
