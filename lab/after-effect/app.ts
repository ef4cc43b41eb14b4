/** An application whose handler charges, and then does what its request says. It tells its URL to its parent. */
import 'reflect-metadata';
import { appendFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import {
  Controller,
  GatewayTimeoutException,
  Headers,
  Module,
  Post,
  Req,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { catchError, throwError, timeout, TimeoutError } from 'rxjs';
import type { WorkRequest } from '../bench/http/contender.js';
import { contenders, type ContenderName } from './contenders.js';
import type { Plan } from './scene.js';

/** After how long the application answers 504, whatever the handler does. */
export const TIMEOUT_MS = 3_000;

const ledger = process.env.LEDGER!;
const contender = await contenders[process.env.CONTENDER as ContenderName].open({
  platform: 'express',
  redisUrl: process.env.REDIS_URL!,
  postgresUrl: '',
  library: '',
});
const { mark = () => undefined, around = (_, work) => work(), modules = [] } = contender;

@Controller()
class ChargesController {
  @Post('charges')
  @mark
  charge(@Req() request: WorkRequest, @Headers('x-plan') plan: string) {
    const { beforeMs, afterMs } = JSON.parse(plan) as Plan;
    return around(request, async () => {
      const key = request.headers['idempotency-key'];
      await delay(beforeMs);
      appendFileSync(ledger, `${JSON.stringify({ key })}\n`);
      await (afterMs === undefined ? new Promise(() => undefined) : delay(afterMs));
      return { key };
    });
  }
}

/** As the documentation of Nest shows it. */
class Timeout implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler) {
    return next.handle().pipe(
      timeout(TIMEOUT_MS),
      catchError((error: unknown) =>
        throwError(() => (error instanceof TimeoutError ? new GatewayTimeoutException() : error)),
      ),
    );
  }
}

@Module({ imports: [...modules], controllers: [ChargesController] })
class LabModule {}

const app = await NestFactory.create(LabModule, { logger: false });
if (process.env.HAS_TIMEOUT === 'true') app.useGlobalInterceptors(new Timeout());
await contender.configure?.(app);
await app.listen(0, '127.0.0.1');
process.once('disconnect', () => process.exit());
process.send!(await app.getUrl());
