/** Texts by their paths within a project. */
export type GeneratedSources = Readonly<Record<string, string>>;

/**
 * What a user writes into a new project: a protected route behind a guard, a protected method of a service,
 * and their tests. Formatted as the project's own linter requires.
 *
 * @param js - how the project's imports end: '' in CommonJS, '.js' in ES modules.
 */
export function protectedApp(js: '' | '.js'): GeneratedSources {
  return {
    'src/user.guard.ts': `import { CanActivate, ExecutionContext, Injectable } from '@nestjs/common';

export interface UserRequest {
  headers: Record<string, string | undefined>;
  user?: { id: string };
}

@Injectable()
export class UserGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<UserRequest>();
    const id = request.headers['x-user'];
    if (id === undefined) return false;
    request.user = { id };
    return true;
  }
}
`,
    'src/app.service.ts': `import { Injectable } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';

export interface Charge {
  charge: number;
  amount: number;
  attempt: number;
}

@Injectable()
export class AppService {
  private charges = 0;
  private receipts = 0;

  getHello(): string {
    return 'Hello World!';
  }

  charge(amount: number, attempt: number): Charge {
    this.charges += 1;
    return { charge: this.charges, amount, attempt };
  }

  @Idempotent({
    operation: 'receipt.print',
    key: (order: string) => order,
    scope: () => [],
  })
  async printReceipt(
    order: string,
  ): Promise<{ order: string; receipt: number }> {
    this.receipts += 1;
    return Promise.resolve({ order, receipt: this.receipts });
  }

  ledger(): { charges: number; receipts: number } {
    return { charges: this.charges, receipts: this.receipts };
  }
}
`,
    'src/app.controller.ts': `import { Body, Controller, Get, Param, Post, UseGuards } from '@nestjs/common';
import { IdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { AppService, type Charge } from './app.service${js}';
import { UserGuard } from './user.guard${js}';

@Controller()
export class AppController {
  constructor(private readonly appService: AppService) {}

  @Get()
  getHello(): string {
    return this.appService.getHello();
  }

  @Post('charges')
  @UseGuards(UserGuard)
  @Idempotent()
  charge(
    @Body() { amount }: { amount: number },
    @IdempotencyContext() { attempt }: IdempotencyContext,
  ): Charge {
    return this.appService.charge(amount, attempt);
  }

  @Post('receipts/:order')
  printReceipt(@Param('order') order: string) {
    return this.appService.printReceipt(order);
  }

  @Get('ledger')
  ledger() {
    return this.appService.ledger();
  }
}
`,
    'src/app.module.ts': `import { Module } from '@nestjs/common';
import { IdempotencyModule } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { AppController } from './app.controller${js}';
import { AppService } from './app.service${js}';
import { UserRequest } from './user.guard${js}';

@Module({
  imports: [
    IdempotencyModule.forRoot({
      store: memoryStore(),
      caller: {
        scope: (context) =>
          context.switchToHttp().getRequest<UserRequest>().user?.id,
      },
    }),
  ],
  controllers: [AppController],
  providers: [AppService],
})
export class AppModule {}
`,
    'src/app.controller.spec.ts': `import { Test, TestingModule } from '@nestjs/testing';
import {
  createIdempotencyContext,
  IdempotencyTestingModule,
} from 'nestjs-idempotency/testing';
import { AppController } from './app.controller${js}';
import { AppService } from './app.service${js}';

describe('AppController', () => {
  let appController: AppController;

  beforeEach(async () => {
    const app: TestingModule = await Test.createTestingModule({
      imports: [IdempotencyTestingModule.passThrough()],
      controllers: [AppController],
      providers: [AppService],
    }).compile();

    appController = app.get<AppController>(AppController);
  });

  describe('root', () => {
    it('should return "Hello World!"', () => {
      expect(appController.getHello()).toBe('Hello World!');
    });
  });

  it('charges in the given attempt', () => {
    const context = createIdempotencyContext({ attempt: 2 });
    expect(appController.charge({ amount: 1250 }, context)).toEqual({
      charge: 1,
      amount: 1250,
      attempt: 2,
    });
  });
});

describe('an AppController made by hand', () => {
  it('charges', () => {
    const controller = new AppController(new AppService());
    const charge = controller.charge(
      { amount: 1250 },
      createIdempotencyContext(),
    );
    expect(charge).toEqual({ charge: 1, amount: 1250, attempt: 1 });
  });
});
`,
    'src/app.service.spec.ts': `import { DynamicModule } from '@nestjs/common';
import { Test, TestingModule } from '@nestjs/testing';
import { IdempotencyTestingModule } from 'nestjs-idempotency/testing';
import { AppService } from './app.service${js}';

describe('AppService', () => {
  let app: TestingModule;

  async function create(idempotency: DynamicModule): Promise<AppService> {
    app = await Test.createTestingModule({
      imports: [idempotency],
      providers: [AppService],
    }).compile();
    await app.init();
    return app.get(AppService);
  }

  afterEach(async () => {
    await app.close();
  });

  it('prints each time where everything passes', async () => {
    const service = await create(IdempotencyTestingModule.passThrough());
    await service.printReceipt('one');
    expect(await service.printReceipt('one')).toEqual({
      order: 'one',
      receipt: 2,
    });
  });

  it('prints one receipt for an order', async () => {
    const service = await create(IdempotencyTestingModule.inMemory());
    const first = await service.printReceipt('one');
    expect(await service.printReceipt('one')).toEqual(first);
    expect(service.ledger()).toEqual({ charges: 0, receipts: 1 });
  });
});
`,
    'test/app.e2e-spec.ts': `import { randomUUID } from 'node:crypto';
import { Test, TestingModule } from '@nestjs/testing';
import { INestApplication } from '@nestjs/common';
import { IdempotencyStore } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import request from 'supertest';
import { App } from 'supertest/types${js}';
import { AppModule } from './../src/app.module${js}';

describe('AppController (e2e)', () => {
  let app: INestApplication<App>;
  let key: string;

  beforeEach(async () => {
    const moduleFixture: TestingModule = await Test.createTestingModule({
      imports: [AppModule],
    }).compile();

    app = moduleFixture.createNestApplication();
    await app.init();
    key = randomUUID();
  });

  function charge(amount: number, at = app) {
    return request(at.getHttpServer())
      .post('/charges')
      .set({ 'x-user': 'alice', 'idempotency-key': key })
      .send({ amount });
  }

  function ledger(at = app) {
    return request(at.getHttpServer()).get('/ledger');
  }

  it('/ (GET)', () => {
    return request(app.getHttpServer())
      .get('/')
      .expect(200)
      .expect('Hello World!');
  });

  it('charges', async () => {
    await charge(1250).expect(201, { charge: 1, amount: 1250, attempt: 1 });
    await ledger().expect({ charges: 1, receipts: 0 });
  });

  it('replays the first response', async () => {
    await charge(1250).expect(201);
    await charge(1250)
      .expect(201, { charge: 1, amount: 1250, attempt: 1 })
      .expect('Idempotent-Replayed', 'true');
    await ledger().expect({ charges: 1, receipts: 0 });
  });

  it('rejects the key for another amount', async () => {
    await charge(1250).expect(201);
    await charge(999).expect(422);
    await ledger().expect({ charges: 1, receipts: 0 });
  });

  it('rejects users that the guard does not know', async () => {
    await charge(1250).unset('x-user').expect(403);
    await ledger().expect({ charges: 0, receipts: 0 });
  });

  describe('with a store of its own', () => {
    const others: INestApplication<App>[] = [];

    async function createOn(store: IdempotencyStore) {
      const moduleFixture: TestingModule = await Test.createTestingModule({
        imports: [AppModule],
      })
        .overrideProvider(IdempotencyStore)
        .useValue(store)
        .compile();
      const other: INestApplication<App> =
        moduleFixture.createNestApplication();
      others.push(other);
      await other.init();
      return other;
    }

    it('replays what another application on that store has done', async () => {
      const store = memoryStore();
      const [one, two] = [await createOn(store), await createOn(store)];
      await charge(1250, one).expect(201);
      await charge(1250, two).expect(201).expect('Idempotent-Replayed', 'true');
      await ledger(two).expect({ charges: 0, receipts: 0 });
    });

    afterEach(async () => {
      for (const other of others.splice(0)) await other.close();
    });
  });

  afterEach(async () => {
    await app.close();
  });
});
`,
  };
}

/** The module of an application whose environment selects the store. */
export function moduleWithStores(js: '' | '.js'): GeneratedSources {
  return {
    'src/app.module.ts': `import { Module } from '@nestjs/common';
import { IdempotencyModule, IdempotencyStore } from 'nestjs-idempotency';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { AppController } from './app.controller${js}';
import { AppService } from './app.service${js}';
import { UserRequest } from './user.guard${js}';

async function createStore(): Promise<IdempotencyStore> {
  const { REDIS_URL, DATABASE_URL } = process.env;
  if (REDIS_URL !== undefined) return redisStore({ url: REDIS_URL });
  await migrate({ url: DATABASE_URL! });
  return postgresStore({ url: DATABASE_URL! });
}

@Module({
  imports: [
    IdempotencyModule.forRootAsync({
      useFactory: async () => ({
        service: 'generated',
        store: await createStore(),
        caller: {
          scope: (context) =>
            context.switchToHttp().getRequest<UserRequest>().user?.id,
        },
      }),
    }),
  ],
  controllers: [AppController],
  providers: [AppService],
})
export class AppModule {}
`,
  };
}
