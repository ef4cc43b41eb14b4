import { Controller, Post } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { InScenario, Scenario } from '../scenario.js';

/** Routes that differ in their time limits. */
@Controller()
export class TimeController {
  @Post('soon-forgotten')
  @Idempotent({ outcome: { retention: 300 } })
  async soonForgotten(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('soon-silent')
  @Idempotent({ outcome: { retention: '1h', bodyRetention: 300 } })
  async soonSilent(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('quickly-saved')
  @Idempotent({ storeErrors: { saveTimeout: 100 } })
  async quicklySaved(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('rather-unprotected')
  @Idempotent({ storeErrors: { whenUnavailable: 'execute' } })
  async ratherUnprotected(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }
}
