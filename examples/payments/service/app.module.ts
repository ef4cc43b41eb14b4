import { createHmac, timingSafeEqual } from 'node:crypto';
import * as common from '@nestjs/common';
import { Body, Controller, Get, Injectable, Param, Post, UploadedFile } from '@nestjs/common';
import { FileInterceptor } from '@nestjs/platform-express';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { IsInt, IsPositive, IsString } from 'class-validator';
import {
  IdempotencyContext,
  IdempotencyHealth,
  IdempotencyModule,
  Idempotent,
} from 'nestjs-idempotency';
import { fileBlobs } from 'nestjs-idempotency/blobs/file';
import { IdempotencyConsoleModule } from 'nestjs-idempotency/console';
import { prometheus } from 'nestjs-idempotency/prometheus';
import { redisStore } from 'nestjs-idempotency/redis';
import { documentIdempotency } from 'nestjs-idempotency/swagger';
import { register } from 'prom-client';

const reqOf = (context: common.ExecutionContext) => context.switchToHttp().getRequest();

/** Stands for your tokens or sessions. */
const users = new Map<string, object>([
  ['Bearer alices-token', { id: 'alice', may: [] }],
  ['Bearer olgas-token', { id: 'olga', may: ['read'] }],
]);

@Injectable()
export class UserGuard implements common.CanActivate {
  canActivate(context: common.ExecutionContext) {
    const request = reqOf(context);
    request.user = users.get(request.headers.authorization); // Keys belong to this user's id.
    if (!request.user) throw new common.UnauthorizedException();
    return true;
  }
}

const UserId = common.createParamDecorator((_, context): string => reqOf(context).user.id);

/** The provider signs its events. */
@Injectable()
export class SignatureGuard implements common.CanActivate {
  canActivate(context: common.ExecutionContext) {
    const { rawBody = '', headers } = reqOf(context);
    const expected = createHmac('sha256', process.env.WEBHOOK_SECRET!).update(rawBody).digest();
    const given = Buffer.from(headers['webhook-signature'] ?? '', 'hex');
    return given.length === expected.length && timingSafeEqual(given, expected);
  }
}

export class PaymentDto {
  @IsInt() @IsPositive() amount!: number;
  @IsString() card!: string;
}

/** Your payment provider's API. It charges once per key that it gets. */
@Injectable()
export class Provider {
  async charge(payment: PaymentDto, key: string, signal: AbortSignal): Promise<{ id: string }> {
    const response = await fetch(process.env.PROVIDER_URL ?? 'http://localhost:4000/charges', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify(payment),
      signal,
    });
    // A decision, which is kept. Nothing is known after another failure: a retry asks again.
    if (response.status === 402) throw new common.HttpException('The card is declined', 402);
    if (!response.ok) throw new common.BadGatewayException();
    return (await response.json()) as { id: string };
  }
}

/** Stands for your tables. */
@Injectable()
export class Payments {
  readonly rows = new Map<string, { user: string; receipts: number[] }>();
  readonly settled: string[] = [];
  of(user: string, id: string) {
    const row = this.rows.get(id);
    if (row?.user !== user) throw new common.NotFoundException();
    return row;
  }
}

@Controller('payments')
@common.UseGuards(UserGuard)
export class PaymentsController {
  constructor(
    private readonly provider: Provider,
    private readonly payments: Payments,
  ) {}

  @Post()
  @Idempotent({ operation: 'payments.charge' })
  async charge(
    @UserId() user: string,
    @Body() payment: PaymentDto,
    @IdempotencyContext() { downstreamKey, signal }: IdempotencyContext,
  ) {
    const { id } = await this.provider.charge(payment, downstreamKey('provider/charge'), signal);
    this.payments.rows.set(id, { user, receipts: [] });
    return { id };
  }

  @Post(':id/receipts')
  @Idempotent({ operation: 'payments.receipt' })
  @common.UseInterceptors(FileInterceptor('receipt')) // Below @Idempotent(), which compares the file.
  attach(@UserId() user: string, @Param('id') id: string, @UploadedFile() file: { size: number }) {
    return { receipts: this.payments.of(user, id).receipts.push(file.size) };
  }

  @Post(':id/invoices')
  @Idempotent({ operation: 'payments.invoice' }) // 4 MB: its record points to a file.
  invoice(@UserId() user: string, @Param('id') id: string) {
    this.payments.of(user, id);
    return new common.StreamableFile(Buffer.alloc(4_000_000, `${id}, made at ${Date.now()}\n`));
  }
}

@Controller()
export class OtherController {
  constructor(
    private readonly payments: Payments,
    private readonly idempotency: IdempotencyHealth,
  ) {}

  @Post('webhooks')
  @common.UseGuards(SignatureGuard)
  @Idempotent({
    operation: 'webhooks.provider',
    key: (context) => reqOf(context).body?.id, // The event's.
    caller: { scope: () => 'provider' },
    fingerprint: false, // The signature vouches for the content.
    outcome: { retention: '7d' }, // Longer than the provider sends an event again.
  })
  settle(@Body() event: { payment: string }) {
    return { settled: this.payments.settled.push(event.payment) };
  }

  @Get('ready')
  async ready(): Promise<object> {
    const report = await this.idempotency.check({ probe: 'write' });
    if (report.status === 'down') throw new common.ServiceUnavailableException(report);
    return report;
  }

  @Get('metrics')
  @common.Header('content-type', register.contentType)
  metrics() {
    return register.metrics();
  }
}

@common.Module({
  imports: [
    IdempotencyModule.forRoot({
      service: 'payments',
      store: redisStore({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' }),
      blobs: fileBlobs({ directory: process.env.BLOBS ?? 'blobs' }),
      telemetry: prometheus(),
    }),
    IdempotencyConsoleModule.forRoot({
      path: 'console',
      guards: [UserGuard],
      operator: (context) => ({ actor: reqOf(context).user.id, may: reqOf(context).user.may }),
    }),
  ],
  controllers: [PaymentsController, OtherController],
  providers: [Provider, Payments],
})
export class AppModule {}

/** What the application and its tests share. Make both with `{ rawBody: true }`, which has what is signed. */
export function setUp(app: common.INestApplication) {
  app.useGlobalPipes(new common.ValidationPipe({ whitelist: true }));
  app.enableShutdownHooks();
  const config = new DocumentBuilder().setTitle('Payments').addBearerAuth().build();
  SwaggerModule.setup('docs', app, () =>
    documentIdempotency(app, () => SwaggerModule.createDocument(app, config)),
  );
}
