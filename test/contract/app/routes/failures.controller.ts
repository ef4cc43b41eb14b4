import {
  Body,
  Catch,
  Controller,
  HttpException,
  Param,
  Post,
  Res,
  UseFilters,
  ValidationPipe,
  type ArgumentsHost,
  type ExceptionFilter,
} from '@nestjs/common';
import { IsInt } from 'class-validator';
import { Idempotent } from 'nestjs-idempotency';
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

  @Post('keeps-everything/:how/:status')
  @Idempotent({ keep: () => true })
  keepsEverything(
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
}

async function failFirst(scenario: Scenario, how: string, status: number, reply: Reply) {
  const execution = await scenario.execute();
  const body = { execution };
  reply.header('X-Execution', String(execution));
  if (execution > 1) return body;
  if (how === 'thrown') throw new HttpException(body, status);
  if (how === 'raised') throw new TypeError('nobody expected this');
  reply.status(status);
  return body;
}
