import { Controller, Post } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp } from '../../support/http/start-app.js';
import { useServer } from '../../support/servers/use-server.js';

@Controller()
class KeysController {
  @Post('things')
  @Idempotent()
  async create(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }
}

describe.each(platforms)('the octets of a key on %s', (platform) => {
  const app = useServer(() =>
    startApp({ platform, store: memoryStore(), controllers: [KeysController] }),
  );

  // 0xA0 is white space to String.prototype.trim(), but not to HTTP.
  it.each(['80', '85', 'a0', 'ff'])(
    'C14 above 0x7E are rejected in any position: 0x%s',
    async (octet) => {
      const char = String.fromCharCode(parseInt(octet, 16));
      for (const key of [`k${char}`, `${char}k`, `k${char}k`, `"k"${char}`, `${char}"k"`, char]) {
        const scenario = app.scenario();
        expectProblem(await scenario.post('/things', { key }), 'key-invalid');
        expect(scenario.executions).toBe(0);
      }
    },
  );

  it('C16 white space around the value is ignored', async () => {
    const scenario = app.scenario();
    const { key: own } = scenario;
    for (const key of [` ${own}`, `${own} `, `\t${own}\t`, `  "${own}"  `]) {
      expect((await scenario.post('/things', { key })).status).toBe(201);
    }
    expect(scenario.executions).toBe(1);
  });
});
