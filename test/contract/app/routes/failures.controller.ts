import {
  BadRequestException,
  Body,
  Catch,
  Controller,
  HttpException,
  Param,
  ParseIntPipe,
  Post,
  Res,
  UseFilters,
  ValidationPipe,
  type ArgumentsHost,
  type ExceptionFilter,
} from '@nestjs/common';
import { IsInt } from 'class-validator';
import { Idempotent } from 'nestjs-idempotency';
import { defer } from 'rxjs';
import type { Reply } from '../../../support/http/reply.js';
import { InScenario, Scenario } from '../scenario.js';

class Order {
  @IsInt()
  amount!: number;
}

let errors = 0;

/** Gives every error a number of its own. */
@Catch(HttpException)
class NumberedErrorsFilter implements ExceptionFilter {
  catch(error: HttpException, host: ArgumentsHost): void {
    errors += 1;
    const reply = host.switchToHttp().getResponse<Reply>();
    reply.status(error.getStatus()).header('X-Error', String(errors)).send({ error: errors });
  }
}

/** Routes whose first execution fails, and whose others succeed. */
@Controller()
export class FailuresController {
  @Post('fails-first/:how/:status')
  @Idempotent()
  failsFirst(
    @InScenario() scenario: Scenario,
    @Param('how') how: string,
    @Param('status') status: string,
    @Res({ passthrough: true }) reply: Reply,
  ) {
    return failFirst(scenario, how, Number(status), reply);
  }

  @Post('fails-as-observable/:how/:status')
  @Idempotent()
  failsAsObservable(
    @InScenario() scenario: Scenario,
    @Param('how') how: string,
    @Param('status') status: string,
    @Res({ passthrough: true }) reply: Reply,
  ) {
    return defer(() => failFirst(scenario, how, Number(status), reply));
  }

  @Post('fails-natively/:how/:status')
  @Idempotent()
  async failsNatively(
    @InScenario() scenario: Scenario,
    @Param('how') how: string,
    @Param('status') status: string,
    @Res() reply: Reply,
  ) {
    reply.send(await failFirst(scenario, how, Number(status), reply.status(201)));
  }

  @Post('keeps-everything/:how/:status')
  @Idempotent({ outcome: () => true })
  keepsEverything(
    @InScenario() scenario: Scenario,
    @Param('how') how: string,
    @Param('status') status: string,
    @Res({ passthrough: true }) reply: Reply,
  ) {
    return failFirst(scenario, how, Number(status), reply);
  }

  @Post('keeps-successes/:how/:status')
  @Idempotent({
    outcome: ({ status, error }) => error === undefined && status !== undefined && status < 400,
  })
  keepsSuccesses(
    @InScenario() scenario: Scenario,
    @Param('how') how: string,
    @Param('status') status: string,
    @Res({ passthrough: true }) reply: Reply,
  ) {
    return failFirst(scenario, how, Number(status), reply);
  }

  @Post('filtered')
  @UseFilters(NumberedErrorsFilter)
  @Idempotent()
  async filtered(@InScenario() scenario: Scenario) {
    throw new HttpException(`execution ${await scenario.execute()}`, 409);
  }

  @Post('validated')
  @Idempotent()
  async validated(@InScenario() scenario: Scenario, @Body(new ValidationPipe()) order: Order) {
    return { execution: await scenario.execute(), amount: order.amount };
  }

  @Post('numbered/:id')
  @Idempotent()
  async numbered(@InScenario() scenario: Scenario, @Param('id', ParseIntPipe) id: number) {
    return { execution: await scenario.execute(), id };
  }

  @Post('validates-itself')
  @Idempotent()
  async validatesItself(@InScenario() scenario: Scenario, @Body() { amount }: Order) {
    const execution = await scenario.execute();
    if (amount < 1) throw new BadRequestException('the amount is too small');
    return { execution };
  }
}

async function failFirst(scenario: Scenario, how: string, status: number, reply: Reply) {
  const execution = await scenario.execute();
  const body = { execution };
  reply.header('X-Execution', String(execution));
  if (execution > 1) return body;
  if (how === 'thrown') throw new HttpException(body, status);
  if (how === 'raised') throw new TypeError('unexpected failure');
  // eslint-disable-next-line @typescript-eslint/only-throw-error -- applications do it
  if (how === 'rejected') throw 'a text';
  reply.status(status);
  return body;
}
