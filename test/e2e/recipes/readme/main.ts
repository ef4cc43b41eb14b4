import 'reflect-metadata';
import {
  Body,
  type CanActivate,
  Controller,
  type ExecutionContext,
  Injectable,
  Module,
  Post,
  UnauthorizedException,
  UseGuards,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { IdempotencyModule, Idempotent } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';

/** Stands for your tokens or sessions. */
const users = new Map([['Bearer alices-token', { id: 'alice' }]]);

@Injectable()
class BearerGuard implements CanActivate {
  canActivate(context: ExecutionContext) {
    const request = context.switchToHttp().getRequest();
    request.user = users.get(request.headers.authorization); // Keys belong to this user's id.
    if (!request.user) throw new UnauthorizedException();
    return true;
  }
}

@Controller('payments')
@UseGuards(BearerGuard)
class PaymentsController {
  private charges = 0;

  @Post()
  @Idempotent()
  charge(@Body() { amount }: { amount: string }) {
    this.charges += 1;
    return { charge: this.charges, amount };
  }
}

@Module({
  imports: [
    IdempotencyModule.forRoot({
      store: redisStore({ url: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379' }),
    }),
  ],
  controllers: [PaymentsController],
})
class AppModule {}

async function bootstrap() {
  const app = await NestFactory.create(AppModule);
  app.enableShutdownHooks();
  await app.listen(process.env.PORT ?? 3000);
}
void bootstrap();
