import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it, jest } from '@jest/globals';
import { ReplyBatch } from '../../../lib/cache/reply-batch.js';

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('A batch of replies', () => {
  it('tells all of a turn at its end, in their order', async () => {
    const batch = new ReplyBatch();
    const told: string[] = [];
    const add = (reply: string) => void batch.add(reply).then((one) => told.push(one));
    add('one');
    await Promise.resolve();
    add('two');
    await new Promise((resolve) => {
      process.nextTick(resolve);
    });
    expect(told).toEqual([]);
    add('three');
    await turn();
    expect(told).toEqual(['one', 'two', 'three']);
  });

  it('leaves what comes while it tells to the next turn', async () => {
    const batch = new ReplyBatch();
    const told: string[] = [];
    void batch.add('one').then(async (one) => {
      told.push(one);
      told.push(await batch.add('two'));
    });
    await turn();
    expect(told).toEqual(['one']);
    await turn();
    expect(told).toEqual(['one', 'two']);
  });

  it('tells also while a test drives the timers', async () => {
    const batch = new ReplyBatch();
    jest.useFakeTimers();
    try {
      await expect(batch.add('one')).resolves.toBe('one');
    } finally {
      jest.useRealTimers();
    }
    await expect(batch.add('two')).resolves.toBe('two');
  });

  it('leaves each request its own context', async () => {
    const batch = new ReplyBatch();
    const context = new AsyncLocalStorage<string>();
    const seen = await Promise.all(
      ['one', 'two'].map((name) =>
        context.run(name, async () => {
          await batch.add(undefined);
          return context.getStore();
        }),
      ),
    );
    expect(seen).toEqual(['one', 'two']);
  });
});
