import { describe, expect, it } from '@jest/globals';
import { platforms } from '../../support/http/combinations.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { startApp } from '../../support/http/start-app.js';
import { useServer } from '../../support/servers/use-server.js';
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
      options: {
        unitOfWork: bank.unitOfWork,
        storeErrors: { commandTimeoutMs: 5_000, saveTimeoutMs: 5_000 },
      },
    }),
  );

  it('an outer interceptor that retries gets a new transaction without the writes of the last execution', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    const first = await scenario.post('/repeated-outside');
    expect(first).toMatchObject({ status: 201, json: { execution: 2 } });
    expect(await bank.committed(scenario)).toEqual([2]);
    expectReplay(await scenario.post('/repeated-outside'), first);
  });

  it('an inner interceptor that retries fails, and nothing is committed', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    expect((await scenario.post('/repeated-inside')).status).toBe(500);
    expect(scenario.executions).toBe(1);
    expect(await bank.committed(scenario)).toEqual([]);
    expect((await scenario.post('/repeated-inside')).status).toBe(201);
    expect(await bank.committed(scenario)).toEqual([2]);
  });

  it('an inner interceptor may replace an error with a response, and the writes are rolled back', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    const first = await scenario.post('/falls-back');
    expect(first).toMatchObject({ status: 201, json: { fallback: true } });
    expect(await bank.committed(scenario)).toEqual([]);
    expectReplay(await scenario.post('/falls-back'), first);
  });

  it('a success that is not kept is committed, and may run again', async () => {
    const scenario = app.scenario();
    expect((await scenario.post('/unkept')).json).toEqual({ execution: 1 });
    expect(await bank.committed(scenario)).toEqual([1]);
    expect((await scenario.post('/unkept')).json).toEqual({ execution: 2 });
    expect(await bank.committed(scenario)).toEqual([1, 2]);
    expect(scenario.notes).toEqual(['committed', 'committed']);
  });
});
