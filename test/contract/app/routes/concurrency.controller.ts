import { Controller, HttpException, Post, Res, UseInterceptors } from '@nestjs/common';
import type { CallHandler, ExecutionContext, NestInterceptor } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { from, merge, mergeMap, take, throwError, type Observable } from 'rxjs';
import type { Reply } from '../../../support/http/reply.js';
import { InScenario, Scenario, scenarioOf } from '../scenario.js';

/** A timeout that the suite fires: 503, while the handler continues. */
class TimeoutInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const scenario = scenarioOf(context.switchToHttp().getRequest());
    const timeout = from(scenario.timeoutEnds()).pipe(
      mergeMap(() => throwError(() => new HttpException('too slow', 503))),
    );
    return merge(next.handle(), timeout).pipe(take(1));
  }
}

/** Routes that differ in their response to a duplicate in progress. */
@Controller()
export class ConcurrencyController {
  @Post('waiting')
  @Idempotent({ duplicates: 'wait' })
  async waiting(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('waiting-briefly')
  @Idempotent({ duplicates: { mode: 'wait', timeout: 50 } })
  async waitingBriefly(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('short-lease')
  @Idempotent({ lease: { duration: 1_000 } })
  async shortLease(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('later')
  @Idempotent({ duplicates: { retryAfter: 2_500 } })
  async later(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('natively')
  @Idempotent()
  async natively(@InScenario() scenario: Scenario, @Res() reply: Reply) {
    reply.status(201).send({ execution: await scenario.execute() });
  }

  @Post('with-timeout')
  @Idempotent()
  @UseInterceptors(TimeoutInterceptor)
  async withShortTimeout(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }
}
