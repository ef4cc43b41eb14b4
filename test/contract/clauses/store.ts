import { expect, it } from '@jest/globals';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import type { Server } from '../harness/server.js';
import type { ContractScenario } from '../harness/contract-scenario.js';
import { visible } from './replay.js';

/** Section I, as far as the store goes. */
export function store(server: Server): void {
  async function whileCut(scenario: ContractScenario, during: () => Promise<void>) {
    await scenario.control('store/cut', 'POST');
    try {
      await during();
    } finally {
      await scenario.control('store/restore', 'POST');
    }
  }

  it('C87 while the store is unavailable nothing executes, and requests without a key continue', async () => {
    const scenario = server.scenario('C87');
    await whileCut(scenario, async () => {
      expectProblem(await scenario.send('charge'), 'store-unavailable');
      expect(await scenario.executions()).toBe(0);
      expect(await scenario.send('no key')).toMatchObject({ status: 201, json: { execution: 1 } });
      expect(await scenario.send('undecorated')).toMatchObject({ json: { execution: 2 } });
    });
    const first = await scenario.send('charge');
    expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 3 } });
    expectReplay(await scenario.send('charge'), first);
  });

  it("C87 with storeErrors.whenUnavailable: 'execute' the operation runs, and the response says so", async () => {
    const scenario = server.scenario('C87');
    await whileCut(scenario, async () => {
      const response = await scenario.send('rather unprotected');
      expect(response).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
      expect(response.header('idempotency-status')).toBe('unprotected');
    });
  });

  it('C73a it may read that the store is unavailable, and that an execution was not protected', async () => {
    const scenario = server.scenario('C73a');
    await whileCut(scenario, async () => {
      const rejected = await scenario.send('charge from a page');
      expect([rejected.status, visible(rejected, 'Retry-After')]).toEqual([503, '1']);
      const run = await scenario.send('charge from a page, rather unprotected');
      expect([run.status, visible(run, 'Idempotency-Status')]).toEqual([201, 'unprotected']);
    });
  });

  it('C87a a store that fails after the handler does not lose the response', async () => {
    const scenario = server.scenario('C87a');
    const pending = await scenario.hold('charge');
    await whileCut(scenario, async () => {
      await scenario.order('open-gate');
      expect(await pending.response).toMatchObject({ status: 201, json: { execution: 1 } });
    });
    expectReplay(await scenario.sendOnceSettled('charge'), await pending.response);
    expect(await scenario.executions()).toBe(1);
  });

  it('C87e no record name and no log line contains a key, a caller or a body', async () => {
    const scenario = server.scenario('C87e');
    // First: under the key of a charge it would be rejected, and log nothing.
    for (const name of ['fails', 'charge', 'charge', 'another payload', 'malformed key']) {
      await scenario.send(name);
    }
    const traces = await scenario.control('traces', 'GET');
    expect(traces).toContain('unexpected failure');
    for (const secret of [scenario.key, 'alice-of-C87e', 'what-was-sent', 'something-else']) {
      expect(traces).not.toContain(secret);
    }
  });
}
