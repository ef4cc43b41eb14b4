import {
  Body,
  Controller,
  Injectable,
  Module,
  type OnApplicationShutdown,
  Post,
} from '@nestjs/common';
import { PrismaPg } from '@prisma/adapter-pg';
import { IdempotencyModule, IdempotencyTransaction, Idempotent } from 'nestjs-idempotency';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { prismaUnitOfWork } from 'nestjs-idempotency/prisma';
import { type Prisma, PrismaClient } from './generated/prisma/client.js';
import type { RefundDto } from './refund.js';

@Injectable()
export class PrismaService extends PrismaClient implements OnApplicationShutdown {
  constructor() {
    super({ adapter: new PrismaPg({ connectionString: process.env.DATABASE_URL }) });
  }

  onApplicationShutdown() {
    return this.$disconnect();
  }
}

@Module({ providers: [PrismaService], exports: [PrismaService] })
class DatabaseModule {}

// #region module
export const idempotency = IdempotencyModule.forRootAsync({
  imports: [DatabaseModule],
  inject: [PrismaService],
  useFactory: (prisma: PrismaService) => ({
    service: 'shop',
    store: postgresStore({ url: process.env.DATABASE_URL }),
    unitOfWork: prismaUnitOfWork(prisma),
  }),
});
// #endregion

@Controller('refunds')
export class RefundsController {
  // #region handler
  @Post()
  @Idempotent({ transaction: true })
  refund(@Body() data: RefundDto, @IdempotencyTransaction() prisma: Prisma.TransactionClient) {
    return prisma.refund.create({ data });
  }
  // #endregion
}
