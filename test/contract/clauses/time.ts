import { setTimeout as pause } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import type { RawResponse } from '../../support/http/wire/raw-response.js';
import type { Target } from '../harness/targets.js';

const LEASE_MS = 1_000;
const RETENTION_MS = 300;
const POLL_MS = 20;
/** Two clocks that count whole milliseconds each. */
const ROUNDING_MS = 2;

const isSecond = ({ status, json }: RawResponse) => status === 201 && json.execution === 2;

/**
 * C56, and section G. A server's clock cannot be driven from outside, so lease and retention of these routes
 * are short, and the suite polls until they are over: that they end, and never too early. Nothing here fails
 * because a machine was slow. The tests run at once, on all servers.
 */
export function whatTakesTime(targets: readonly Target[]): void {
  const each = it.concurrent.each(targets);

  each(
    'C56 a handler four times longer than its lease keeps its key, on $name',
    async ({ server }) => {
      const scenario = server.scenario('C56');
      const began = performance.now();
      const pending = await scenario.hold('charge');
      while (performance.now() - began < 4 * LEASE_MS) {
        expectProblem(await scenario.send('charge'), 'in-progress');
        await pause(POLL_MS);
      }
      await scenario.order('open-gate');
      const first = await pending.response;
      expect(first.status).toBe(201);
      expectReplay(await scenario.send('charge'), first);
      expect(await scenario.executions()).toBe(1);
    },
  );

  each('C80 after the retention time the key is new, on $name', async ({ server }) => {
    const scenario = server.scenario('C80');
    const began = performance.now();
    await scenario.send('charge');
    const second = await scenario.sendUntil(isSecond, 'charge');
    expect(performance.now() - began).toBeGreaterThanOrEqual(RETENTION_MS - ROUNDING_MS);
    expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
  });

  each(
    'C81 after the retention time the key is new for another payload too, on $name',
    async ({ server }) => {
      const scenario = server.scenario('C81');
      await scenario.send('charge');
      const second = await scenario.sendUntil(({ status }) => status !== 422, 'another payload');
      expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
    },
  );

  each('C82 replays do not prolong it, on $name', async ({ server }) => {
    const scenario = server.scenario('C82');
    const first = await scenario.send('charge');
    const replays: RawResponse[] = [];
    // Polled every few milliseconds, a retention that replays prolong would never end.
    const second = await scenario.sendUntil((response) => {
      if (response.replayed) replays.push(response);
      return isSecond(response);
    }, 'charge');
    for (const again of replays) expectReplay(again, first);
    expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
  });

  each(
    'C82a it begins at completion, and an attempt in progress does not expire, on $name',
    async ({ server }) => {
      const scenario = server.scenario('C82a');
      const began = performance.now();
      const pending = await scenario.hold('charge');
      while (performance.now() - began < 2 * RETENTION_MS) {
        expectProblem(await scenario.send('charge'), 'in-progress');
        await pause(POLL_MS);
      }
      const opened = performance.now();
      await scenario.order('open-gate');
      expect((await pending.response).json).toMatchObject({ execution: 1 });
      const second = await scenario.sendUntil(isSecond, 'charge');
      expect(performance.now() - opened).toBeGreaterThanOrEqual(RETENTION_MS - ROUNDING_MS);
      expect(second.json).toMatchObject({ execution: 2 });
    },
  );

  each(
    'C82c after the retention of the body only the fact is kept, on $name',
    async ({ server }) => {
      const scenario = server.scenario('C82c');
      const began = performance.now();
      const first = await scenario.send('charge');
      const silent = await scenario.sendUntil((response) => {
        if (response.replayed) expectReplay(response, first);
        return response.status !== first.status;
      }, 'charge');
      expect(performance.now() - began).toBeGreaterThanOrEqual(RETENTION_MS - ROUNDING_MS);
      expectProblem(silent, 'response-not-kept');
      expect(await scenario.executions()).toBe(1);
    },
  );

  it.each(targets)('C82b the retention is published, on $name', async ({ server }) => {
    const { json } = await server.scenario('C82b').send('OpenAPI document');
    const keyOf = (path: string) =>
      json.paths[path].post.parameters.find(({ in: place }: any) => place === 'header');
    expect(keyOf('/things')).toMatchObject({
      name: 'Idempotency-Key',
      description: expect.stringContaining('24 hours'),
    });
    expect(keyOf('/soon-forgotten').description).toContain(`${RETENTION_MS} milliseconds`);
  });
}
