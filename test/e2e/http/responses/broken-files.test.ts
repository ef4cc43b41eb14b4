import { Readable } from 'node:stream';
import { Controller, Post, StreamableFile } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { useServer } from '../../../support/servers/use-server.js';

function failing(...chunks: readonly string[]): Readable {
  const rest = [...chunks];
  return new Readable({
    read() {
      const chunk = rest.shift();
      if (chunk === undefined) process.nextTick(() => this.destroy(new Error('disk')));
      else this.push(chunk);
    },
  });
}

@Controller()
class FilesController {
  @Post('unreadable')
  @Idempotent()
  async unreadable(@InScenario() scenario: Scenario) {
    await scenario.run();
    return new StreamableFile(failing(), { type: 'text/csv' });
  }

  @Post('cut-short')
  @Idempotent()
  async cutShort(@InScenario() scenario: Scenario) {
    await scenario.run();
    return new StreamableFile(failing('a;b\n'), { type: 'text/csv' });
  }
}

describe.each(platforms)('a returned file, on %s,', (platform) => {
  const app = useServer(() =>
    startApp({ platform, store: memoryStore(), controllers: [FilesController] }),
  );

  it('that fails before its first byte: retries get the error that the client got [P41]', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/unreadable');
    expect(first.status).toBe(platform === 'express' ? 400 : 500);
    expectReplay(await scenario.post('/unreadable'), first);
    expect(scenario.executions).toBe(1);
  });

  it('that breaks off later is never replayed as a whole one, nor made again [P42]', async () => {
    const scenario = app.scenario();
    // On Express the connection ends.
    const first = await scenario.post('/cut-short').catch(() => undefined);
    expect(first === undefined).toBe(platform === 'express');
    const again = await onceSettled(() => scenario.post('/cut-short'));
    // Fastify has read it to its end before the first byte leaves.
    if (first === undefined) expectProblem(again, 'response-not-kept');
    else expectReplay(again, first);
    expect(scenario.executions).toBe(1);
  });
});
