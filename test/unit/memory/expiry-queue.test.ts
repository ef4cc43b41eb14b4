import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { ExpiryQueue } from '../../support/internals/stores/memory.js';

const keys = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h');
const instants = fc.integer({ min: 0, max: 20 });
const operations = fc.array(
  fc.oneof(fc.record({ set: keys, expiresAt: instants }), fc.record({ takeBefore: instants })),
  { maxLength: 60 },
);

describe('ExpiryQueue', () => {
  it('returns expired keys, first what expired first, however often keys were moved', () => {
    fc.assert(
      fc.property(operations, (steps) => {
        const queue = new ExpiryQueue<string>();
        const model = new Map<string, number>();
        for (const step of steps) {
          if ('set' in step) {
            queue.set(step.set, step.expiresAt);
            model.set(step.set, step.expiresAt);
            continue;
          }
          const earliest = Math.min(...model.values());
          const taken = queue.takeExpired(step.takeBefore);
          if (earliest > step.takeBefore) {
            expect(taken).toBeUndefined();
          } else {
            expect(model.get(taken!)).toBe(earliest);
            model.delete(taken!);
          }
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it('holds nothing after it was cleared', () => {
    const queue = new ExpiryQueue<string>();
    queue.set('a', 1);
    queue.clear();
    expect(queue.takeExpired(2)).toBeUndefined();
  });
});
