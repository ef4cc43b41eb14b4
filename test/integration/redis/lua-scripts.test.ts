import { describe, expect, it } from '@jest/globals';
import { loadScripts } from '../../support/internals/stores/redis/scripts.js';

const [FIRST, LAST] = ["local time = redis.call('TIME')", 'if tonumber(expiresAt) <= now'];

/** From the clock to the end of the block that reads the record. */
function readingBlock(text: string): string {
  const start = text.indexOf(FIRST);
  const end = text.indexOf('\nend\n', text.indexOf(LAST, start));
  if (start < 0 || end < 0) throw new Error('The script has no block that reads the record.');
  return text.slice(start, end);
}

describe('the six scripts', () => {
  const scripts = Object.entries(loadScripts());

  it('read the record with the same lines, byte for byte', () => {
    expect(scripts.map(([name]) => name)).toEqual([
      'abandoned',
      'begin',
      'complete',
      'extend',
      'inspect',
      'release',
    ]);
    const blocks = new Set(scripts.map(([, { text }]) => readingBlock(text)));
    expect(blocks.size).toBe(1);
    const [block] = blocks;
    expect(block).toContain("redis.call('GET', KEYS[1])");
    expect(block).toContain('UNKNOWNRECORD');
  });

  it.each(scripts)('read record and time once: %s', (_, { text }) => {
    expect(text.match(/redis\.call\('GET'/g)).toHaveLength(1);
    expect(text.match(/redis\.call\('TIME'/g)).toHaveLength(1);
  });
});
