import { Controller, HostParam, Patch, Post, Put, type ExecutionContext } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { InScenario, Scenario } from '../scenario.js';

function orderNumber(_: unknown, context: ExecutionContext): unknown {
  return context.switchToHttp().getRequest<{ body: { order: string } }>().body.order;
}

/** Routes that differ in which requests are the same. */
@Controller()
export class ContentController {
  @Post('things/:id')
  @Idempotent()
  async thing(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Patch('documents/:id')
  @Idempotent()
  async change(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Put('documents/:id')
  @Idempotent()
  async replace(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Patch('principals-own/:id')
  @Idempotent({ key: { uniqueFor: 'principal' } })
  async changeOwn(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Put('principals-own/:id')
  @Idempotent({ key: { uniqueFor: 'principal' } })
  async replaceOwn(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('uncompared')
  @Idempotent({ fingerprint: false })
  async uncompared(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('bytes')
  @Idempotent({ fingerprint: 'bytes' })
  async bytes(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('selected')
  @Idempotent({ fingerprint: { include: ['amount', 'currency'] } })
  async selected(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('but-for')
  @Idempotent({ fingerprint: { exclude: ['sentAt'] } })
  async butFor(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('computed')
  @Idempotent({ fingerprint: orderNumber })
  async computed(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('versioned')
  @Idempotent({ fingerprint: { headers: ['If-Match', 'X-Api-Version'] } })
  async versioned(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }
}

/** The host names the tenant. */
@Controller({ path: 'hosted', host: ':tenant.example.com' })
export class HostedController {
  @Post()
  @Idempotent()
  async hosted(@InScenario() scenario: Scenario, @HostParam('tenant') tenant: string) {
    return { execution: await scenario.execute(), tenant };
  }
}
