import { type ExecutionContext, Module } from '@nestjs/common';
import { ConfigModule, ConfigService } from '@nestjs/config';
import { IdempotencyModule } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';

/** The request after your guard; public routes have no user. */
interface GuardedRequest {
  readonly user?: { readonly tenant: string; readonly id: string };
}

@Module({
  imports: [
    IdempotencyModule.forRootAsync({
      imports: [ConfigModule.forRoot()],
      inject: [ConfigService],
      useFactory: (config: ConfigService) => ({
        service: 'shop',
        store: redisStore({ url: config.getOrThrow<string>('REDIS_URL') }),
        caller: {
          scope: (context: ExecutionContext) => {
            const { user } = context.switchToHttp().getRequest<GuardedRequest>();
            // undefined: the caller is unknown, and the option "caller.anonymous" decides.
            return user && [user.tenant, user.id];
          },
        },
      }),
    }),
  ],
})
export class AppModule {}
