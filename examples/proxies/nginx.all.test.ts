import { All, Controller, Patch, Post, Put } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { expectProblem } from '../../test/support/http/expectations.js';
import { InScenario, Scenario } from '../../test/support/http/scenario.js';
import { startApp } from '../../test/support/http/start-app.js';
import { FaultProxy, type Fault } from '../../test/support/http/wire/fault-proxy.js';
import { findNginx, startNginx } from '../../test/support/servers/nginx-server.js';
import type { StartedServer } from '../../test/support/servers/start-server.js';
import { useServer } from '../../test/support/servers/use-server.js';
import { until } from '../../test/support/waiting/until.js';

@Controller()
class OrdersController {
  @All('plain')
  plain(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('orders')
  @Idempotent()
  post(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Put('orders')
  @Idempotent()
  put(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Patch('orders')
  @Idempotent({ duplicates: 'wait' })
  patch(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

/** Skips a missing server; `npm test` reports it (test/support/provision). */
const where = findNginx() === undefined ? describe.skip : describe;

where('Behind nginx, with two processes,', () => {
  const store = memoryStore();
  const startOne = () => startApp({ platform: 'express', controllers: [OrdersController], store });
  const apps = [useServer(startOne), useServer(startOne)];
  const proxies = apps.map((app) => useServer(() => FaultProxy.start(app.port)));

  /** Injects faults into the first exchanges, whichever process gets them. */
  function inject(...faults: readonly Fault[]): void {
    const left = [...faults];
    for (const proxy of proxies) proxy.follow(() => left.shift() ?? 'none');
  }
  const exchanges = () => proxies.reduce((sum, proxy) => sum + proxy.exchanges, 0);

  let nginx: StartedServer | undefined;
  afterEach(() => nginx?.stop());
  async function through(...settings: readonly string[]): Promise<number> {
    nginx = await startNginx(
      proxies.map(({ port }) => port),
      settings,
    );
    return nginx.port;
  }

  it('a POST whose response is lost gets 502, and its retry the first outcome', async () => {
    const port = await through();
    const scenario = apps[0]!.scenario();
    inject('lose the answer');
    expect((await scenario.post('/orders', { port })).status).toBe(502);
    const retry = await scenario.post('/orders', { port });
    expect(retry).toMatchObject({ status: 201, replayed: true, json: { execution: 1 } });
    expect([scenario.executions, exchanges()]).toEqual([1, 2]);
  });

  it('a PUT whose response is lost is sent again by nginx, and runs once', async () => {
    const port = await through();
    const scenario = apps[0]!.scenario();
    inject('lose the answer');
    const response = await scenario.send('PUT', '/orders', { port });
    expect(response).toMatchObject({ status: 200, replayed: true, json: { execution: 1 } });
    expect([scenario.executions, exchanges()]).toEqual([1, 2]);
  });

  it('a POST is sent again by nginx where its configuration says so, and runs once', async () => {
    const port = await through('proxy_next_upstream error timeout non_idempotent;');
    const scenario = apps[0]!.scenario();
    inject('lose the answer');
    const response = await scenario.post('/orders', { port });
    expect(response).toMatchObject({ status: 201, replayed: true, json: { execution: 1 } });
    expect([scenario.executions, exchanges()]).toEqual([1, 2]);
  });

  it.each(['PUT', 'POST'])('an unprotected %s runs twice then', async (method) => {
    const port = await through('proxy_next_upstream error timeout non_idempotent;');
    const scenario = apps[0]!.scenario();
    inject('lose the answer');
    const response = await scenario.send(method, '/plain', { port });
    expect(response).toMatchObject({ json: { execution: 2 } });
    expect(scenario.executions).toBe(2);
  });

  it('an operation goes on after the time-out of nginx, and the retry gets its outcome', async () => {
    const port = await through('proxy_read_timeout 500ms;');
    const scenario = apps[0]!.scenario();
    inject();
    scenario.gate.close();
    expect((await scenario.post('/orders', { port })).status).toBe(504);
    expectProblem(await scenario.post('/orders', { port }), 'in-progress');
    scenario.gate.open();
    await until(() => scenario.passed.count === 1);
    await until(async () => (await scenario.post('/orders', { port })).status === 201);
    const retry = await scenario.post('/orders', { port });
    expect(retry).toMatchObject({ status: 201, replayed: true, json: { execution: 1 } });
    expect(scenario.executions).toBe(1);
  });

  it('a waiting duplicate gets a 504, too, where it waits longer than nginx', async () => {
    const port = await through('proxy_read_timeout 500ms;');
    const scenario = apps[0]!.scenario();
    inject();
    scenario.gate.close();
    const both = [1, 2].map(() => scenario.send('PATCH', '/orders', { port }));
    expect((await Promise.all(both)).map(({ status }) => status)).toEqual([504, 504]);
    scenario.gate.open();
    const retry = await scenario.send('PATCH', '/orders', { port });
    expect(retry).toMatchObject({ status: 200, replayed: true, json: { execution: 1 } });
    expect(scenario.executions).toBe(1);
  });

  it('a key in a header with an underscore does not arrive', async () => {
    const port = await through();
    inject();
    const scenario = apps[0]!.scenario();
    const sent = { port, keyHeader: 'Idempotency_Key' };
    expectProblem(await scenario.post('/orders', sent), 'key-missing');
    expect(scenario.executions).toBe(0);
  });
});
