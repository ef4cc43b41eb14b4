import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Controller, type INestApplication, Injectable, Post } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  currentIdempotencyContext,
  currentIdempotencyTransaction,
  IdempotencyContext,
  type IdempotencyEvent,
  IdempotencyEvents,
  IdempotencyOptionsError,
  IdempotencyReconciler,
  IdempotencyService,
  IdempotencyStore,
  IdempotencyTransaction,
  Idempotent,
  requireIdempotencyContext,
} from 'nestjs-idempotency';
import {
  type SqlTransaction,
  PostgresUnitOfWork,
  type TransactionOptions,
} from 'nestjs-idempotency/transactions';
import {
  createIdempotencyContext,
  type IdempotencyTestContextOptions,
  IdempotencyTestingModule,
  type IdempotencyTestingOptions,
  unprotected,
} from 'nestjs-idempotency/testing';
import { useServer } from '../../support/servers/use-server.js';
import { rejection } from '../../support/nest/calling-app.js';
import { projectRoot } from '../../support/project-root.js';
import {
  Ledger,
  OrdersConsumer,
  OrdersController,
  OrdersGateway,
  OrdersResolver,
  startShop,
  testShop,
} from './support/shop.js';

describe('IdempotencyTestingModule.passThrough()', () => {
  const shop = useServer(() => startShop(testShop(IdempotencyTestingModule.passThrough())));

  it.each([
    ['http', 'OrdersController.create'],
    ['message', 'OrdersConsumer.price'],
    ['socket', 'OrdersGateway.order'],
    ['graphql', 'OrdersResolver.pay'],
    ['method', 'InvoiceService.send'],
    ['call', 'remind'],
  ])('runs %s every time, with a key that comes twice or without', async (way, operation) => {
    const { charges } = shop.ledger;
    const before = charges.length;
    const run = shop.ways[way]!;
    const responses = [await run('twice'), await run('twice'), await run(undefined)];
    expect(responses).toEqual([1, 2, 3].map((added) => ({ nr: before + added })));
    const charge = {
      ...{ by: way, operation, isProtected: false, isTakeover: false },
      ...{ attempt: 1, fencingToken: 0, aborted: false, ambient: true },
    };
    expect(charges.slice(before)).toEqual([charge, charge, charge]);
  });

  it('does not affect a safe method', async () => {
    const response = await fetch(`${await shop.app.getUrl()}/orders`);
    expect(await response.json()).toMatchObject({ isIdempotent: false });
  });

  it('has every provider that an application may inject', async () => {
    const events: IdempotencyEvent[] = [];
    shop.app.get(IdempotencyEvents).subscribe((event) => events.push(event));
    await shop.ways.http!('one');
    expect(await shop.app.get(IdempotencyReconciler).reconcile()).toMatchObject({});
    expect(shop.app.get(IdempotencyStore)).toBeInstanceOf(IdempotencyStore);
    const call = { operation: 'o', key: 'k', scope: ['a', 1] };
    const detailed = shop.app
      .get(IdempotencyService)
      .runDetailed(call, ({ key, scope }) => ({ key, scope }));
    expect(await detailed).toEqual({ value: { key: 'k', scope: ['a', 1] }, replayed: false });
    expect(events).toMatchObject([{ type: 'reconciled' }]);
  });

  it('gives every execution its own key, within the service', async () => {
    @Injectable()
    class Keys {
      @Idempotent({ key: (id: string) => id })
      async context(_id: string) {
        return Promise.resolve(requireIdempotencyContext());
      }
    }
    const service = 'shop';
    const imports = [IdempotencyTestingModule.passThrough({ service })];
    const module = await Test.createTestingModule({ imports, providers: [Keys] }).compile();
    const keys = module.get(Keys);
    const [one, other] = [await keys.context('one'), await keys.context('one')];
    expect(one.downstreamKey('bank')).not.toBe(other.downstreamKey('bank'));
    const { operation, scope, key } = one;
    const expected = createIdempotencyContext({ service, operation, scope, key });
    expect(one.downstreamKey('bank')).toBe(expected.downstreamKey('bank'));
    await module.close();
  });
});

describe('transactional operations that pass through', () => {
  /** Records the statements that a database would execute. */
  class Database extends PostgresUnitOfWork<{ readonly write: (row: string) => void }> {
    readonly log: string[] = [];

    async run<Result>(
      { isolation }: TransactionOptions,
      work: (transaction: SqlTransaction<{ write: (row: string) => void }>) => Promise<Result>,
    ): Promise<Result> {
      this.log.push(`begin ${isolation ?? 'default'}`);
      const handle = { write: (row: string) => void this.log.push(`write ${row}`) };
      try {
        const result = await work({ handle, query: () => Promise.resolve([]) });
        this.log.push('commit');
        return result;
      } catch (error) {
        this.log.push('roll back');
        throw error;
      }
    }
  }

  type Transaction = { readonly write: (row: string) => void } | undefined;

  const mails: string[] = [];

  @Controller('transfers')
  @Idempotent({ transaction: true })
  class Transfers {
    @Post()
    transfer(
      @IdempotencyTransaction() transaction: Transaction,
      @IdempotencyContext() context: IdempotencyContext,
    ): object {
      transaction?.write('transfer');
      context.onCommitted(() => transaction?.write('mail'));
      return { done: true };
    }

    @Post('failing')
    @Idempotent({ transaction: { isolation: 'serializable' } })
    failing(@IdempotencyTransaction() transaction: Transaction): object {
      transaction?.write('transfer');
      throw new Error('no money');
    }

    @Post('plain')
    @Idempotent({ transaction: false })
    plain(): object {
      return { transaction: currentIdempotencyTransaction() ?? null };
    }
  }

  @Injectable()
  class Ledger {
    @Idempotent({ key: (id: string) => id })
    async book(id: string): Promise<void> {
      currentIdempotencyTransaction<NonNullable<Transaction>>()?.write(id);
      requireIdempotencyContext().onCommitted(() => {
        throw new Error('no mail');
      });
      requireIdempotencyContext().onCommitted(() => mails.push('booked'));
      return Promise.resolve();
    }
  }

  let started: INestApplication | undefined;
  afterEach(async () => {
    await started?.close();
    mails.length = 0;
  });

  async function start(options: IdempotencyTestingOptions) {
    const module = await Test.createTestingModule({
      imports: [IdempotencyTestingModule.passThrough(options)],
      controllers: [Transfers],
      providers: [Ledger],
    }).compile();
    const app = module.createNestApplication({ logger: false });
    started = app;
    await app.listen(0, '127.0.0.1');
    const url = await app.getUrl();
    const events: IdempotencyEvent[] = [];
    app.get(IdempotencyEvents).subscribe((event) => events.push(event));
    const post = async (path: string) => (await fetch(`${url}${path}`, { method: 'POST' })).json();
    return { app, post, events };
  }

  it('run in a transaction, without a record', async () => {
    const database = new Database();
    const { post } = await start({ unitOfWork: database });
    expect(await post('/transfers')).toEqual({ done: true });
    expect(database.log).toEqual(['begin default', 'write transfer', 'commit', 'write mail']);
    database.log.length = 0;
    expect(await post('/transfers/failing')).toMatchObject({ statusCode: 500 });
    expect(database.log).toEqual(['begin serializable', 'write transfer', 'roll back']);
    database.log.length = 0;
    expect(await post('/transfers/plain')).toEqual({ transaction: null });
    expect(database.log).toEqual([]);
  });

  it("run in one as the module's option says, also methods; failing hooks are reported", async () => {
    const database = new Database();
    const { app, events } = await start({ unitOfWork: database, transaction: true });
    await app.get(Ledger).book('one');
    const call = { operation: 'o', key: 'k', scope: 'a' };
    await app.get(IdempotencyService).run(call, () => undefined);
    await app.get(IdempotencyService).run({ ...call, transaction: false }, () => undefined);
    expect(database.log).toEqual([
      ...['begin default', 'write one', 'commit'],
      ...['begin default', 'commit'],
    ]);
    expect(mails).toEqual(['booked']);
    expect(events).toMatchObject([{ type: 'commit_hook_failed', operation: 'Ledger.book' }]);
  });

  it('run without a transaction when the unit of work is missing, and their hooks are called', async () => {
    const { app, post } = await start({});
    const noTransaction = { statusCode: 500 };
    expect(await post('/transfers')).toMatchObject(noTransaction);
    expect(await post('/transfers/plain')).toEqual({ transaction: null });
    const call = { operation: 'o', key: 'k', scope: 'a', transaction: true };
    await app.get(IdempotencyService).run(call, (context) => {
      context.onCommitted(() => mails.push('called'));
    });
    expect(mails).toEqual(['called']);
  });
});

@Injectable()
class Mailer {
  constructor(private readonly sent: string[]) {}

  @Idempotent({ key: (id: string) => id })
  async send(id: string): Promise<boolean> {
    this.sent.push(id);
    return Promise.resolve(currentIdempotencyContext()?.isProtected ?? true);
  }
}

describe('request handlers on an instance that a test has created', () => {
  it.each([
    [
      'http',
      (ledger: Ledger) => new OrdersController(ledger).create({}, createIdempotencyContext()),
    ],
    [
      'message',
      (ledger: Ledger) => new OrdersConsumer(ledger).price({}, createIdempotencyContext()),
    ],
    [
      'event',
      (ledger: Ledger) =>
        createIdempotencyContext().run(() => {
          new OrdersConsumer(ledger).placed({});
        }),
    ],
    ['graphql', (ledger: Ledger) => new OrdersResolver(ledger).pay(1, createIdempotencyContext())],
    ['socket', (ledger: Ledger) => new OrdersGateway(ledger).order({}, createIdempotencyContext())],
  ] as const)('%s: are plain methods', (by, call) => {
    const ledger = new Ledger();
    call(ledger);
    call(ledger);
    expect(ledger.charges).toMatchObject([
      { by, attempt: 1, ambient: by === 'event' },
      { by, attempt: 1 },
    ]);
  });
});

describe('a protected method', () => {
  it('gives a remedy on an instance that Nest has not created', async () => {
    const sent: string[] = [];
    const error = await rejection(new Mailer(sent).send('one'));
    expect(error).toBeInstanceOf(IdempotencyOptionsError);
    expect(error.code).toBe('idempotency_options_invalid');
    expect(error.message).toContain('Mailer.send() is idempotent');
    expect(error.message).toContain('import IdempotencyModule');
    expect(error.message).toContain(
      'Test.createTestingModule({ imports: [IdempotencyTestingModule.passThrough()], providers: [Mailer] })',
    );
    expect(error.message).toContain('unprotected(new Mailer(…))');
    expect(sent).toEqual([]);
  });

  it('gives a remedy when it is called without an instance', async () => {
    const { send } = Mailer.prototype as { send: (id: string) => Promise<unknown> };
    const error = await rejection(send('one'));
    expect(error.message).toContain('send() is idempotent but was called without its instance');
  });

  it('runs every time on an unprotected instance', async () => {
    const sent: string[] = [];
    const mailer: Mailer = unprotected(new Mailer(sent));
    expect(mailer).toBeInstanceOf(Mailer);
    expect(await mailer.send('one')).toBe(false);
    expect(await mailer.send('one')).toBe(false);
    expect(sent).toEqual(['one', 'one']);
    await expect(new Mailer(sent).send('one')).rejects.toThrow('was not created by Nest');
  });

  it('runs unprotected when the testing module provides the instance', async () => {
    const sent: string[] = [];
    const module = await Test.createTestingModule({
      imports: [IdempotencyTestingModule.passThrough()],
      providers: [{ provide: Mailer, useFactory: () => unprotected(new Mailer(sent)) }],
    }).compile();
    await module.init();
    await module.get(Mailer).send('one');
    await module.get(Mailer).send('one');
    expect(sent).toEqual(['one', 'one']);
    await module.close();
  });

  it('must exist on an instance that unprotected() is given', () => {
    const controller = new OrdersController(new Ledger());
    expect(() => unprotected(controller)).toThrow(
      'unprotected() was given an instance of OrdersController',
    );
    expect(() => unprotected({})).toThrow(IdempotencyOptionsError);
  });
});

describe('the testing page', () => {
  it('names the options of createIdempotencyContext()', () => {
    let known: string[] = [];
    try {
      createIdempotencyContext({ nothing: 1 } as IdempotencyTestContextOptions);
    } catch (error) {
      known = /Valid options: (.*)\.$/.exec((error as Error).message)![1]!.split(', ');
    }
    const page = readFileSync(join(projectRoot, 'docs/guides/testing.md'), 'utf8');
    const options = page.matchAll(/^\| `(\w+)` +\| /gm);
    expect([...options].map(([, name]) => name)).toEqual(known);
  });
});
