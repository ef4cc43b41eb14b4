import { describe, expect, it } from '@jest/globals';
import { loadScripts } from '../../support/internals/redis.js';

const scripts = Object.entries(loadScripts());

describe('the seven scripts', () => {
  it('are these, with flags where they write for an attempt that already runs', () => {
    const flags = scripts.map(([name, { flagged }]) => [name, flagged !== undefined]);
    expect(flags).toEqual([
      ['abandoned', true],
      ['begin', false],
      // Without memory, there is no record to rename.
      ['complete-large', false],
      ['complete', true],
      ['extend', true],
      ['inspect', false],
      ['release', true],
    ]);
  });

  it('leave large records to GET in the form of begin for that', () => {
    const large = scripts.flatMap(([name, { large }]) =>
      large === undefined ? [] : [[name, large]],
    );
    expect(large.map(([name]) => name)).toEqual(['begin']);
    const { text, large: begin } = loadScripts().begin;
    const lines = begin!.text.split('\n');
    expect(lines.filter((line) => !line.endsWith(' -- large')).join('\n')).toBe(text);
    const { largestInScripts } = begin!;
    expect(largestInScripts).toBeGreaterThanOrEqual(4_096);
  });

  it.each(scripts)('hold what they include, and read record and time once: %s', (_, { text }) => {
    expect(text).not.toContain('-- include');
    for (const read of ["'TIME'", "'GETRANGE', KEYS[1], '0', '511'"]) {
      expect(text.split(`redis.call(${read})`)).toHaveLength(2);
    }
  });
});

describe('the scripts with flags', () => {
  const flagged = scripts.flatMap(([name, { text, flagged }]) =>
    flagged === undefined ? [] : [[name, text, flagged.text] as const],
  );

  it.each(flagged)(
    'are the same but for the flag and the PEXPIREAT before a SET: %s',
    (_, text, other) => {
      const [flag, ...lines] = other.split('\n');
      expect(flag).toBe('#!lua flags=allow-oom');
      const without = text.split('\n').filter((line) => !line.endsWith(' -- without allow-oom'));
      expect(lines).toEqual(without);
      expect(text.split('\n').length - lines.length).toBe(1);
      expect(text).toMatch(
        /redis\.call\('PEXPIREAT', KEYS\[1\], at\) -- without allow-oom\n *redis\.call\('SET', KEYS\[1\], .*, 'PXAT', at\)\n/,
      );
    },
  );
});
