import { Body, Controller, Post } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Idempotent, payloadField, payloadKey } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../support/http/combinations.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';

@Controller()
class PayloadController {
  @Post('by-field')
  @Idempotent({ key: payloadField('order.id') })
  async byField(@InScenario() scenario: Scenario, @Body() _order: object) {
    return { execution: await scenario.run() };
  }

  @Post('by-payload')
  @Idempotent({ key: payloadKey({ exclude: ['sentAt'] }), fingerprint: { exclude: ['sentAt'] } })
  async byPayload(@InScenario() scenario: Scenario, @Body() _order: object) {
    return { execution: await scenario.run() };
  }
}

describe.each(platforms)('a key from the body of a request on %s', (platform) => {
  let app: TestApp;
  beforeAll(async () => {
    app = await startApp({ platform, store: memoryStore(), controllers: [PayloadController] });
  });
  afterAll(() => app.close());

  const post = (scenario: Scenario, path: string, body: object) =>
    scenario.post(path, { key: null, json: body });

  it('is a member of it', async () => {
    const scenario = app.scenario();
    await post(scenario, '/by-field', { order: { id: 'o7' } });
    expect(await post(scenario, '/by-field', { order: { id: 'o7' } })).toMatchObject({
      replayed: true,
    });
    expect(scenario.executions).toBe(1);
  });

  it('that is no text answers 400, and one that is missing, too', async () => {
    const scenario = app.scenario();
    const invalid = await post(scenario, '/by-field', { order: { id: { no: 'text' } } });
    expect(invalid).toMatchObject({ status: 400 });
    expect(invalid.json).toMatchObject({ code: 'idempotency_key_invalid' });
    const missing = await post(scenario, '/by-field', { order: {} });
    expect(missing.json).toMatchObject({ code: 'idempotency_key_missing' });
    expect(scenario.executions).toBe(0);
  });

  it('is what it says, whatever else changes', async () => {
    const scenario = app.scenario();
    await post(scenario, '/by-payload', { order: 7, sentAt: 1 });
    expect(await post(scenario, '/by-payload', { sentAt: 2, order: 7 })).toMatchObject({
      replayed: true,
    });
    await post(scenario, '/by-payload', { sentAt: 2, order: 8 });
    expect(scenario.executions).toBe(2);
  });
});
