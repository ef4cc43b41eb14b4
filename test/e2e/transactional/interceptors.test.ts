import { describe, expect, it } from '@jest/globals';
import { platforms } from '../../support/http/combinations.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { startApp } from '../../support/http/start-app.js';
import { useServer } from '../../support/use-server.js';
import { useBank } from './support/bank.js';
import { Transfers, TransfersController } from './support/transfers.controller.js';

const bank = useBank();

describe.each(platforms)('Around a transactional handler on %s', (platform) => {
  const app = useServer(() =>
    startApp({
      platform,
      controllers: [TransfersController],
      providers: [Transfers],
      store: bank.newStore(),
      options: { unitOfWork: bank.unitOfWork, commandTimeoutMs: 5_000, saveTimeoutMs: 5_000 },
    }),
  );

  it('who repeats it from outside gets a new transaction: the run before leaves nothing', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    const first = await scenario.post('/repeated-outside');
    expect(first).toMatchObject({ status: 201, json: { execution: 2 } });
    expect(await bank.committed(scenario)).toEqual([2]);
    expectReplay(await scenario.post('/repeated-outside'), first);
  });

  it('who repeats it inside of the layer is refused, and nothing is committed', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    expect((await scenario.post('/repeated-inside')).status).toBe(500);
    expect(scenario.executions).toBe(1);
    expect(await bank.committed(scenario)).toEqual([]);
    expect((await scenario.post('/repeated-inside')).status).toBe(201);
    expect(await bank.committed(scenario)).toEqual([2]);
  });

  it('who answers in its place when it throws is heard, and what it wrote is rolled back', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    const first = await scenario.post('/falls-back');
    expect(first).toMatchObject({ status: 201, json: { fallback: true } });
    expect(await bank.committed(scenario)).toEqual([]);
    expectReplay(await scenario.post('/falls-back'), first);
  });

  it('a success that is not to be kept is committed, and may happen again', async () => {
    const scenario = app.scenario();
    expect((await scenario.post('/unkept')).json).toEqual({ execution: 1 });
    expect(await bank.committed(scenario)).toEqual([1]);
    expect((await scenario.post('/unkept')).json).toEqual({ execution: 2 });
    expect(await bank.committed(scenario)).toEqual([1, 2]);
  });
});
