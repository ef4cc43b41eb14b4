import { All, Controller, Post } from '@nestjs/common';
import { currentIdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { InScenario, Scenario } from '../scenario.js';

/** Routes that differ in what they accept as a key. */
@Controller()
export class KeysController {
  @Post('things')
  @Idempotent()
  async things(@InScenario() scenario: Scenario) {
    const execution = await scenario.execute();
    return { execution, key: currentIdempotencyContext()?.key, text: 'ü€😀' };
  }

  @All('any-method')
  @Idempotent()
  async anyMethod(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('optional')
  @Idempotent({ key: { required: false } })
  async optional(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('undecorated')
  async undecorated(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('strict')
  @Idempotent({ key: { syntax: 'strict' } })
  async strict(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('renamed')
  @Idempotent({ key: 'PayPal-Request-Id' })
  async renamed(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('short')
  @Idempotent({ key: { maxLength: 64 } })
  async short(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }
}
