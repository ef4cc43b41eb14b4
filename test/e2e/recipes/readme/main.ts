import 'reflect-metadata';
import { Body, Controller, Module, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { IdempotencyModule, Idempotent } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';

@Controller('payments')
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
      // Nothing here authenticates. Where a guard sets request.user, leave this line out.
      caller: { anonymous: 'shared' },
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
