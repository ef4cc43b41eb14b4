import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { currentIdempotencyContext, IdempotencyOptionsError, Idempotent } from 'nestjs-idempotency';
import {
  createIdempotencyContext,
  IdempotencyTestingModule,
  unprotected,
} from 'nestjs-idempotency/testing';
import { rejection } from '../../support/nest/calling-app.js';
import {
  Ledger,
  OrdersConsumer,
  OrdersController,
  OrdersGateway,
  OrdersResolver,
} from './support/shop.js';

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
