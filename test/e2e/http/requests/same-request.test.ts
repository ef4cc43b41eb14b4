import { Controller, HostParam, Post } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { InScenario, Scenario, type Sending } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { useServer } from '../../../support/servers/use-server.js';

@Controller()
class ContentController {
  @Post('included')
  @Idempotent({ fingerprint: { include: ['amount', 'currency'] } })
  included(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('excluded')
  @Idempotent({ fingerprint: { exclude: ['sentAt'] } })
  excluded(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('bytes')
  @Idempotent({ fingerprint: 'bytes' })
  bytes(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

/** Responds with the tenant that it served. */
@Controller({ path: 'of-tenants', host: [':tenant.example.com', ':tenant.:region.example.com'] })
class TenantsController {
  @Post()
  @Idempotent()
  async byValue(@InScenario() scenario: Scenario, @HostParam('tenant') tenant: string) {
    return { execution: await scenario.run(), tenant };
  }

  @Post('bytes')
  @Idempotent({ fingerprint: 'bytes' })
  async byBytes(@InScenario() scenario: Scenario, @HostParam('tenant') tenant: string) {
    return { execution: await scenario.run(), tenant };
  }

  @Post('included')
  @Idempotent({ fingerprint: { include: ['amount'], headers: ['If-Match'] } })
  async included(@InScenario() scenario: Scenario, @HostParam('tenant') tenant: string) {
    return { execution: await scenario.run(), tenant };
  }

  @Post('excluded')
  @Idempotent({ fingerprint: { exclude: ['sentAt'] } })
  async excluded(@InScenario() scenario: Scenario, @HostParam('tenant') tenant: string) {
    return { execution: await scenario.run(), tenant };
  }

  @Post('uncompared')
  @Idempotent({ fingerprint: false })
  async uncompared(@InScenario() scenario: Scenario, @HostParam('tenant') tenant: string) {
    return { execution: await scenario.run(), tenant };
  }

  @Post('own')
  @Idempotent({ fingerprint: ({ body }) => body })
  async own(@InScenario() scenario: Scenario, @HostParam('tenant') tenant: string) {
    return { execution: await scenario.run(), tenant };
  }
}

/** Its hosts have no parameters. */
@Controller({ path: 'of-hosts', host: ['a.example.org', 'b.example.org'] })
class HostsController {
  @Post()
  @Idempotent()
  async create(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }
}

describe.each(platforms)('C87b the parameters of the host on %s', (platform) => {
  const app = useServer(() =>
    startApp({
      platform,
      store: memoryStore(),
      controllers: [TenantsController, HostsController],
      rawBody: true,
    }),
  );

  const sentTo = (host: string): Sending => ({ json: { amount: 1 }, headers: [['Host', host]] });

  it.each(['', '/bytes', '/included', '/excluded'])(
    'are compared: /of-tenants%s',
    async (route) => {
      const scenario = app.scenario();
      const path = `/of-tenants${route}`;
      const first = await scenario.post(path, sentTo('a.example.com'));
      expect(first.json).toEqual({ execution: 1, tenant: 'a' });
      for (const host of ['b.example.com', 'a.eu.example.com']) {
        expectProblem(await scenario.post(path, sentTo(host)), 'key-reused');
      }
      expectReplay(await scenario.post(path, sentTo('a.example.com:8080')), first);
      expect(scenario.executions).toBe(1);
    },
  );

  it.each(['/uncompared', '/own'])(
    'are ignored where the content is not compared or a function selects it: %s',
    async (route) => {
      const scenario = app.scenario();
      const first = await scenario.post(`/of-tenants${route}`, sentTo('a.example.com'));
      expect(first.status).toBe(201);
      expectReplay(await scenario.post(`/of-tenants${route}`, sentTo('b.example.com')), first);
    },
  );

  it('are compared, and the rest of the host is not', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/of-hosts', sentTo('a.example.org'));
    expect(first.status).toBe(201);
    expectReplay(await scenario.post('/of-hosts', sentTo('b.example.org')), first);
    expect(scenario.executions).toBe(1);
  });
});

/** Cases for which the contract suite has no routes. It covers JSON, queries and forms. */
describe.each(platforms)('the same request on %s', (platform) => {
  const app = useServer(() =>
    startApp({
      platform,
      store: memoryStore(),
      controllers: [ContentController],
      rawBody: true,
    }),
  );

  /** Expects that `first` repeated is the same request and `other` is not. */
  async function expectCompared(path: string, first: Sending, other: Sending) {
    const scenario = app.scenario();
    const response = await scenario.post(path, first);
    expect(response.status).toBe(201);
    expectProblem(await scenario.post(path, other), 'key-reused');
    expectReplay(await scenario.post(path, first), response);
    expect(scenario.executions).toBe(1);
  }

  const octets = (...values: number[]): Sending => ({
    type: 'application/octet-stream',
    body: Buffer.from(values),
  });
  const text = (body: string): Sending => ({ type: 'text/plain', body });

  it.each(['/included', '/excluded'])(
    'C46 binary and text bodies are compared as a whole where members are selected: %s',
    async (path) => {
      await expectCompared(path, octets(1, 2), octets(1, 3));
      await expectCompared(path, text('one'), text('two'));
    },
  );

  it('C37 the absence of a selected member is compared, that of an excluded one is not', async () => {
    const json = { amount: 1, currency: 'EUR' };
    await expectCompared('/included', { json }, { json: { amount: 1 } });
    const scenario = app.scenario();
    const first = await scenario.post('/excluded', { json: { amount: 1, sentAt: 1 } });
    expectReplay(await scenario.post('/excluded', { json: { amount: 1 } }), first);
  });

  it("C32 with fingerprint: 'bytes' a duplicate member is compared", () =>
    expectCompared('/bytes', { body: '{"a":1}' }, { body: '{"a":0,"a":1}' }));

  it("C46 with fingerprint: 'bytes' the bytes of forms and binary bodies are compared", async () => {
    const type = 'application/x-www-form-urlencoded';
    await expectCompared('/bytes', { type, body: 'a=1&b=2' }, { type, body: 'b=2&a=1' });
    await expectCompared('/bytes', octets(1, 2), octets(1, 3));
  });

  it("C48 with fingerprint: 'bytes' a retry without a body is replayed, and {} is another body", () =>
    expectCompared('/bytes', {}, { body: '{}' }));
});
