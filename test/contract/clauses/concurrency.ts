import { expect, it } from '@jest/globals';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import type { RawResponse } from '../../support/http/wire/raw-response.js';
import type { Server } from '../harness/server.js';

/** Of requests sent at once exactly one has its result unmarked; the others have it marked, or 409. */
export function expectOneResult(responses: readonly RawResponse[]): RawResponse {
  const firsts = responses.filter(({ status, replayed }) => status === 201 && !replayed);
  expect(firsts).toHaveLength(1);
  for (const response of responses.filter((one) => one !== firsts[0])) {
    if (response.replayed) expectReplay(response, firsts[0]!);
    else expectProblem(response, 'in-progress');
  }
  return firsts[0]!;
}

/** Section D except C56, which takes long, and C87c of I. */
export function concurrency(server: Server): void {
  it('C49 thirty identical requests at once have one effect and one result', async () => {
    const scenario = server.scenario('C49');
    expectOneResult(await Promise.all(Array.from({ length: 30 }, () => scenario.send('charge'))));
    expect(await scenario.executions()).toBe(1);
  });

  it('C50 a duplicate gets 409 at once while the first runs', async () => {
    const scenario = server.scenario('C50');
    const first = await scenario.hold('charge');
    expectProblem(await scenario.send('charge'), 'in-progress');
    expect(first.responded).toBe(false);
    await scenario.order('open-gate');
    expect(await first.response).toMatchObject({ status: 201, json: { execution: 1 } });
    expect(await scenario.executions()).toBe(1);
  });

  it('C51 the 409 says after how many whole seconds to retry', async () => {
    const scenario = server.scenario('C51');
    const first = await scenario.hold('charge');
    expectProblem(await scenario.send('charge'), 'in-progress', '1');
    await scenario.order('open-gate');
    await first.response;
  });

  it('C51 with the option duplicates.retryAfter it says another time', async () => {
    const scenario = server.scenario('C51');
    const first = await scenario.hold('charge that takes longer');
    expectProblem(await scenario.send('charge that takes longer'), 'in-progress', '3');
    await scenario.order('open-gate');
    await first.response;
  });

  it('C52 the key replays the result, never the 409', async () => {
    const scenario = server.scenario('C52');
    const pending = await scenario.hold('charge');
    expect((await scenario.send('charge')).status).toBe(409);
    await scenario.order('open-gate');
    const first = await pending.response;
    expectReplay(await scenario.send('charge'), first);
  });

  it('C53 mismatch wins over in flight', async () => {
    const scenario = server.scenario('C53');
    const pending = await scenario.hold('first');
    expectProblem(await scenario.send('another payload'), 'key-reused');
    await scenario.order('open-gate');
    const first = await pending.response;
    expectReplay(await scenario.send('first'), first);
  });

  it('C54 other keys and other callers do not wait', async () => {
    const scenario = server.scenario('C54');
    const held = await scenario.hold('held');
    // At an open gate: only the interceptor could make the others wait.
    const freely = server.scenario('C54');
    expect((await freely.send('another key')).status).toBe(201);
    const { key } = scenario;
    expect((await freely.send('another caller', { key })).status).toBe(201);
    expect(held.responded).toBe(false);
    await scenario.order('open-gate');
    await held.response;
  });

  it("C55 with duplicates: 'wait' a duplicate gets the result, marked", async () => {
    const scenario = server.scenario('C55');
    const pending = await scenario.hold('charge');
    const duplicates = [scenario.start('charge'), scenario.start('charge')];
    await scenario.reach({ arrivals: 3 });
    expectProblem(await scenario.send('another payload'), 'key-reused');
    expect(duplicates.map(({ responded }) => responded)).toEqual([false, false]);
    await scenario.order('open-gate');
    const first = await pending.response;
    for (const { response } of duplicates) expectReplay(await response, first);
    expect(await scenario.executions()).toBe(1);
  });

  it("C55 with duplicates: 'wait' waiting is bounded, then 409", async () => {
    const scenario = server.scenario('C55');
    const pending = await scenario.hold('charge with a short wait');
    expectProblem(await scenario.send('charge with a short wait'), 'in-progress');
    expect(pending.responded).toBe(false);
    await scenario.order('open-gate');
    await pending.response;
  });

  it('C57 a client that leaves while the handler runs finds the result later', async () => {
    for (const name of ['charge', 'charge natively']) {
      const scenario = server.scenario('C57');
      const pending = await scenario.hold(name);
      pending.abandon();
      await scenario.reach({ disconnects: 1 });
      await scenario.order('open-gate');
      const found = await scenario.sendOnceSettled(name);
      expect(found).toMatchObject({ status: 201, replayed: true, json: { execution: 1 } });
      expect(await scenario.executions()).toBe(1);
    }
  });

  it('C58 a client that leaves and retries too early gets 409', async () => {
    const scenario = server.scenario('C58');
    const pending = await scenario.hold('charge');
    pending.abandon();
    await scenario.reach({ disconnects: 1 });
    expectProblem(await scenario.send('charge'), 'in-progress');
    expect(await scenario.executions()).toBe(1);
    await scenario.order('open-gate');
    expect((await scenario.sendOnceSettled('charge')).replayed).toBe(true);
  });

  it('C59 a client that has the response replays it at once, never 409', async () => {
    for (let times = 0; times < 20; times += 1) {
      const scenario = server.scenario('C59');
      const [first, second] = await scenario.sendOnOneConnection('charge', 'charge');
      expectReplay(second!, first!);
    }
  });

  it('C60c after a timeout from outside the key stays locked until the handler settles', async () => {
    const scenario = server.scenario('C60c');
    const pending = await scenario.hold('charge');
    await scenario.order('fire-timeout');
    expect((await pending.response).status).toBe(503);
    expectProblem(await scenario.send('charge'), 'in-progress');
    await scenario.order('open-gate');
    expectProblem(await scenario.sendOnceSettled('charge'), 'response-not-kept');
    expect(await scenario.executions()).toBe(1);
  });

  it('C87c a gateway that resends a POST causes no second execution', async () => {
    const scenario = server.scenario('C87c');
    const responses = [scenario.send('through a gateway'), scenario.send('through a gateway')];
    const first = expectOneResult(await Promise.all(responses));
    expectReplay(await scenario.send('through a gateway'), first);
    expect(await scenario.executions()).toBe(1);
  });
}

/** C60: what two processes on one store guarantee together. */
export function twoProcesses(server: Server): void {
  it('C60 two processes on one store execute once, and either replays', async () => {
    const here = server.scenario('C60');
    const there = here.at(server.peer!);
    const responses = Array.from({ length: 30 }, (_, index) =>
      (index % 2 === 0 ? here : there).send('charge'),
    );
    const first = expectOneResult(await Promise.all(responses));
    expectReplay(await here.send('charge'), first);
    expectReplay(await there.send('charge'), first);
    expect((await here.executions()) + (await there.executions())).toBe(1);
  });

  it('C60 two processes on one store see each other’s attempts and payloads', async () => {
    const here = server.scenario('C60');
    const there = here.at(server.peer!);
    const pending = await here.hold('charge');
    expectProblem(await there.send('charge'), 'in-progress');
    expectProblem(await there.send('another payload'), 'key-reused');
    await here.order('open-gate');
    const first = await pending.response;
    expectReplay(await there.send('charge'), first);
    expect(await there.executions()).toBe(0);
  });
}
