import { getEventListeners } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { abortable } from '../../support/internals/client.js';

describe('abortable work', () => {
  it.each([
    ['completes', () => Promise.resolve(1)],
    ['fails', () => Promise.reject(new Error('broken'))],
  ])('leaves no listener behind when it %s', async (_, work) => {
    const { signal } = new AbortController();
    const result = abortable(work(), signal);
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    await Promise.allSettled([result]);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  it('rejects with the reason at once, however long the work would take', async () => {
    const controller = new AbortController();
    const result = abortable(new Promise(() => undefined), controller.signal);
    controller.abort(new Error('enough'));
    await expect(result).rejects.toThrow('enough');
  });
});
