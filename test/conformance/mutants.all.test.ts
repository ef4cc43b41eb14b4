import { describe, expect, it } from '@jest/globals';
import { BROKEN_STORES } from './broken-stores.js';
import { refutations } from './refutations.js';

describe('the conformance kit rejects a store that', () => {
  it.each(BROKEN_STORES)('$mistake', async ({ create, objection }) => {
    expect(await refutations(create)).toContain(objection);
  });
});
