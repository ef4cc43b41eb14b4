import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { ExpiryQueue } from '../../support/internals/memory.js';

interface Entry {
  readonly key: string;
  expiresAt: number;
  position: number;
}

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
        const queue = new ExpiryQueue<Entry>();
        const model = new Map<string, Entry>();
        for (const step of steps) {
          if ('set' in step) {
            const { set: key, expiresAt } = step;
            const entry = model.get(key) ?? { key, expiresAt, position: -1 };
            entry.expiresAt = expiresAt;
            if (model.has(key)) queue.move(entry);
            else queue.add(entry);
            model.set(key, entry);
            continue;
          }
          const earliest = Math.min(...[...model.values()].map(({ expiresAt }) => expiresAt));
          const taken = queue.takeExpired(step.takeBefore);
          if (earliest > step.takeBefore) {
            expect(taken).toBeUndefined();
          } else {
            expect(model.get(taken!.key)?.expiresAt).toBe(earliest);
            model.delete(taken!.key);
          }
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it('holds nothing after it was cleared', () => {
    const queue = new ExpiryQueue<Entry>();
    queue.add({ key: 'a', expiresAt: 1, position: 0 });
    queue.clear();
    expect(queue.takeExpired(2)).toBeUndefined();
  });
});
