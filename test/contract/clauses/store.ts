import { expect, it } from '@jest/globals';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import type { Server } from '../harness/server.js';
import type { Story } from '../harness/story.js';
import { visible } from './replay.js';

/** Section I, as far as the store goes. */
export function store(server: Server): void {
  async function whileCut(story: Story, during: () => Promise<void>) {
    await story.control('store/cut', 'POST');
    try {
      await during();
    } finally {
      await story.control('store/restore', 'POST');
    }
  }

  it('C87 while the store is unavailable nothing executes, and requests without a key continue', async () => {
    const story = server.story('C87');
    await whileCut(story, async () => {
      expectProblem(await story.send('charge'), 'store-unavailable');
      expect(await story.executions()).toBe(0);
      expect(await story.send('no key')).toMatchObject({ status: 201, json: { execution: 1 } });
      expect(await story.send('undecorated')).toMatchObject({ json: { execution: 2 } });
    });
    const first = await story.send('charge');
    expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 3 } });
    expectReplay(await story.send('charge'), first);
  });

  it("C87 with onStoreUnavailable: 'execute' the operation runs, and the response says so", async () => {
    const story = server.story('C87');
    await whileCut(story, async () => {
      const answer = await story.send('rather unprotected');
      expect(answer).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
      expect(answer.header('idempotency-status')).toBe('unprotected');
    });
  });

  it('C73a it may read that the store is unavailable, and that an execution was not protected', async () => {
    const story = server.story('C73a');
    await whileCut(story, async () => {
      const refused = await story.send('charge from a page');
      expect([refused.status, visible(refused, 'Retry-After')]).toEqual([503, '1']);
      const run = await story.send('charge from a page, rather unprotected');
      expect([run.status, visible(run, 'Idempotency-Status')]).toEqual([201, 'unprotected']);
    });
  });

  it('C87a a store that fails after the handler does not lose the response', async () => {
    const story = server.story('C87a');
    const pending = await story.hold('charge');
    await whileCut(story, async () => {
      await story.order('open-gate');
      expect(await pending.response).toMatchObject({ status: 201, json: { execution: 1 } });
    });
    expectReplay(await story.sendOnceSettled('charge'), await pending.response);
    expect(await story.executions()).toBe(1);
  });

  it('C87e no record name and no log line contains a key, a caller or a body', async () => {
    const story = server.story('C87e');
    // First: under the key of a charge it would be rejected, and log nothing.
    for (const name of ['fails', 'charge', 'charge', 'another payload', 'malformed key']) {
      await story.send(name);
    }
    const traces = await story.control('traces', 'GET');
    expect(traces).toContain('unexpected failure');
    for (const secret of [story.key, 'alice-of-C87e', 'what-was-sent', 'something-else']) {
      expect(traces).not.toContain(secret);
    }
  });
}
