import { Module, ValidationPipe } from '@nestjs/common';
import { ConfigModule, ConfigService } from '@nestjs/config';
import { APP_PIPE } from '@nestjs/core';
import { IdempotencyModule } from 'nestjs-idempotency';
import { IdempotencyConsoleModule } from 'nestjs-idempotency/console';
import { OperatorGuard, operatorOf } from './auth/operator.guard.js';
import { validateEnvironment } from './config/environment.js';
import { idempotencyOptions } from './config/idempotency.js';
import { MonitoringModule } from './monitoring/monitoring.module.js';
import { OrdersModule } from './orders/orders.module.js';
import { PageController } from './page/page.controller.js';
import { PaymentsModule } from './payments/payments.module.js';
import { Persistence } from './persistence/persistence.js';
import { PersistenceModule } from './persistence/persistence.module.js';

@Module({
  imports: [
    ConfigModule.forRoot({ isGlobal: true, validate: validateEnvironment }),
    PersistenceModule,
    IdempotencyModule.forRootAsync({
      inject: [ConfigService, Persistence],
      useFactory: idempotencyOptions,
    }),
    IdempotencyConsoleModule.forRoot({
      path: 'admin/idempotency',
      guards: [OperatorGuard],
      readOnly: false,
      operator: (context) => ({
        actor: operatorOf(context),
        may: ['read', 'release', 'complete', 'redact'],
      }),
    }),
    PaymentsModule,
    OrdersModule,
    MonitoringModule,
  ],
  controllers: [PageController],
  providers: [
    {
      provide: APP_PIPE,
      useValue: new ValidationPipe({
        whitelist: true,
        forbidNonWhitelisted: true,
        transform: true,
      }),
    },
  ],
})
export class AppModule {}
