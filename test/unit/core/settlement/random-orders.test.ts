import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { settle } from '../../../support/internals/core.js';
import { dose } from '../../../support/jest/test-all.js';
import { brokenPromises, orders } from './random-orders.js';
import { RULES } from './table.js';

describe.each(Object.entries(RULES))(
  'in any order of signals, the settlement of %s',
  (_, rules) => {
    it('happens once, never releases a success or a running handler, and precedes the response', () => {
      fc.assert(
        fc.property(orders, (signals) => {
          expect(brokenPromises(settle, rules, signals)).toEqual([]);
        }),
        { numRuns: dose(20_000) },
      );
    });
  },
);
