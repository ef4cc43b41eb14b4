import { Controller, Post, UseInterceptors } from '@nestjs/common';
import { FileInterceptor } from '@nestjs/platform-express';
import { Idempotent } from 'nestjs-idempotency';
import { InScenario, Scenario } from '../scenario.js';

@Controller()
export class ExpressUploadsController {
  // Decorators apply from the bottom: the file is parsed before the interceptor sees the request.
  @Post('uploads')
  @Idempotent()
  @UseInterceptors(FileInterceptor('file'))
  async upload(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }
}

/** Where @fastify/multipart has attached the parts to the body. */
@Controller()
export class FastifyUploadsController {
  @Post('uploads')
  @Idempotent()
  async upload(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }
}
