import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { UseInterceptors, type NestInterceptor } from '@nestjs/common';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { Idempotent, type IdempotencyEventType } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { timeout } from 'rxjs';
import type { Scenario } from '../../support/http/scenario.js';
import { InScenario, payloadOf, scenarioIn } from './support/in-scenario.js';
import { KnownCallers } from './support/known-callers.js';
import { startSocketApp, type SocketApp } from './support/socket-app.js';
import { socketPlatforms } from './support/socket-platforms.js';

/** Stands inside of the layer, and does not wait for as long as the handler takes the first time. */
const impatient: NestInterceptor = {
  intercept: (context, next) =>
    scenarioIn(context).executions > 0 ? next.handle() : next.handle().pipe(timeout(30)),
};

@WebSocketGateway()
class Payments extends KnownCallers {
  @UseInterceptors(impatient)
  @SubscribeMessage('pay')
  @Idempotent()
  async pay(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    if (scenario.planned(execution) === 'break') throw new Error('planned');
    return { event: 'paid', data: { execution } };
  }
}

describe.each(socketPlatforms)(
  'a handler on %s that goes on after an interceptor inside of the layer has given up on it',
  (platform) => {
    let app: SocketApp;
    beforeAll(async () => {
      app = await startSocketApp({ platform, store: memoryStore(), gateways: [Payments] });
    });
    afterAll(() => app.close());

    /** Asks once in vain, and again once the store has been told how the handler ended. */
    async function askTwice(scenario: Scenario, end: IdempotencyEventType) {
      const client = await app.connect('alice');
      scenario.gate.close();
      const first = await client.ask('pay', payloadOf(scenario));
      expect(first).toMatchObject({ event: 'exception', data: { status: 'error' } });
      const inBetween = await client.ask('pay', payloadOf(scenario));
      const ended = app.next(end);
      scenario.gate.open();
      await ended;
      return { inBetween, afterwards: await client.ask('pay', payloadOf(scenario)) };
    }

    it('is not run beside itself, and its success counts', async () => {
      const scenario = app.scenario();
      const { inBetween, afterwards } = await askTwice(scenario, 'completed');
      expect(inBetween.data).toMatchObject({ code: 'idempotency_in_progress' });
      expect(afterwards.data).toMatchObject({ code: 'idempotency_response_not_kept' });
      expect(scenario.executions).toBe(1);
    });

    it('and fails then may be asked again', async () => {
      const scenario = app.scenario();
      scenario.plan = ['break'];
      const { inBetween, afterwards } = await askTwice(scenario, 'released');
      expect(inBetween.data).toMatchObject({ code: 'idempotency_in_progress' });
      expect(afterwards).toEqual({ event: 'paid', data: { execution: 2 } });
    });
  },
);
