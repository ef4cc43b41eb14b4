import { Controller, Post, type ExecutionContext } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { Public, type CallersRequest } from '../caller.guard.js';
import { InScenario, Scenario } from '../scenario.js';

function tenantAndUser(context: ExecutionContext) {
  const { user } = context.switchToHttp().getRequest<CallersRequest>();
  return user?.tenant === undefined ? undefined : [user.tenant, user.id];
}

/** Routes that differ in the caller of a key. */
@Controller()
export class CallersController {
  @Post('public')
  @Public()
  @Idempotent()
  async anonymousRejected(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('public-ignored')
  @Public()
  @Idempotent({ caller: { anonymous: 'ignore' } })
  async anonymousIgnored(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('public-shared')
  @Public()
  @Idempotent({ caller: { anonymous: 'shared' } })
  async anonymousShared(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('of-tenants')
  @Idempotent({ caller: { scope: tenantAndUser } })
  async ofTenants(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }
}
