import 'reflect-metadata';
import { Body, Controller, Module, Post, UnauthorizedException, UseGuards } from '@nestjs/common';
import type { CanActivate, ExecutionContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
// #region imports
import { IdempotencyModule, Idempotent } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
// #endregion

const users = new Map([['Bearer alices-token', { id: 'alice' }]]); // Stands for your tokens.
class BearerGuard implements CanActivate {
  canActivate(context: ExecutionContext) {
    const request = context.switchToHttp().getRequest();
    request.user = users.get(request.headers.authorization); // A key belongs to this user's id.
    if (!request.user) throw new UnauthorizedException();
    return true;
  }
}

@Controller('payments')
@UseGuards(BearerGuard)
class PaymentsController {
  private charges = 0;

  // #region route
  @Post()
  @Idempotent()
  charge(@Body() { amount }: { amount: string }) {
    this.charges += 1;
    return { charge: this.charges, amount };
  }
  // #endregion
}

// #region module
const store = redisStore({ url: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379' });
const idempotency = IdempotencyModule.forRoot({ service: 'shop', store });
@Module({ imports: [idempotency], controllers: [PaymentsController] })
class AppModule {}
// #endregion

async function bootstrap() {
  const app = await NestFactory.create(AppModule);
  app.enableShutdownHooks();
  await app.listen(process.env.PORT ?? 3000);
}
void bootstrap();
