import { Controller, Get, Post, UseInterceptors } from '@nestjs/common';
import { FileInterceptor } from '@nestjs/platform-express';
import { EventPattern } from '@nestjs/microservices';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from '../../../lib/index.js';
import { PROTOCOL_DEFAULTS } from '../../support/internals/core.js';
import {
  check,
  CLASS_CHECKS,
  HANDLER_CHECKS,
  readClass,
  ROUTE_CHECKS,
  warningsOf,
  type ClassFacts,
  type HandlerFacts,
  type ProtectedRoute,
} from '../../support/internals/nest.js';

class Payments {
  readonly charges = 0;
}

/** A protected route, about which there is nothing to say. */
const pay: HandlerFacts = {
  type: Payments,
  property: 'pay',
  name: 'Payments.pay',
  handler: () => undefined,
  entry: () => undefined,
  kinds: ['http'],
  requests: ['POST /payments'],
  isSafe: false,
  isStream: false,
  isNative: false,
  rendition: 'body',
  headers: [],
  isHostBound: false,
  isEvent: false,
  transport: undefined,
  patterns: [],
  isMutation: false,
  takesAck: false,
  options: {},
  classOptions: undefined,
  hasOtherOptions: false,
  isProtected: true,
  reports: true,
  isReached: true,
  isBound: true,
  isOutermost: true,
  isWithinGlobal: false,
  parsesFormsInside: false,
  parsesFormsOutside: false,
  serializesInside: false,
  serializesOutside: false,
  guards: [],
  modules: ['ShopModule'],
};
const payments: ClassFacts = {
  type: Payments,
  name: 'Payments',
  options: undefined,
  hasOtherOptions: false,
  isBound: false,
  methods: [pay],
};
const route: ProtectedRoute = {
  facts: pay,
  transport: 'http',
  operation: 'Payments.pay',
  options: { ...PROTOCOL_DEFAULTS, enabled: true, fingerprint: 'canonical' },
};

describe('start checks, with facts alone', () => {
  it('say nothing of what is sound', () => {
    check(payments, CLASS_CHECKS);
    check(pay, HANDLER_CHECKS);
    check(route, ROUTE_CHECKS);
    expect([...warningsOf([payments], [route])]).toEqual([]);
  });

  it.each<[string, Partial<ClassFacts>]>([
    ['IdempotencyInterceptor is bound to Payments by itself', { isBound: true }],
    ['Payments protects request handlers, and the class has none', { options: {}, methods: [] }],
  ])('of a class: %s', (expected, facts) => {
    expect(() => check({ ...payments, ...facts }, CLASS_CHECKS)).toThrow(expected);
  });

  const undeclared = { entry: undefined, reports: false, options: undefined };
  it.each<[string, Partial<HandlerFacts>]>([
    ['@Idempotent() on Payments.pay has no effect: a decorator above it', { isReached: false }],
    ['Payments.pay inherits the interceptor of a protected base class', undeclared],
    ['bound to Payments.pay by itself', { ...undeclared, isProtected: false }],
    ['bound to Payments.pay by itself', { ...undeclared, kinds: [] }],
  ])('of a handler: %s', (expected, facts) => {
    expect(() => check({ ...pay, ...facts }, HANDLER_CHECKS)).toThrow(expected);
  });

  it('do not mind a method of a test in place of a handler', () => {
    check({ ...pay, ...undeclared, isBound: false, kinds: [] }, HANDLER_CHECKS);
  });

  const serialized = { ...pay, serializesOutside: true };
  const form = { ...pay, parsesFormsInside: true };
  const without = (options: object) => ({ ...route.options, ...options });
  it.each<[ProtectedRoute['transport'], string, HandlerFacts]>([
    ['message', 'through its record, as plain data', serialized],
    ['websocket', 'through its record, as plain data', serialized],
    ['graphql', 'through its record, as plain data', serialized],
    ['http', 'The form of Payments.pay is parsed inside', form],
  ])('of a route, over %s: %s', (transport, expected, facts) => {
    expect(() => check({ ...route, transport, facts }, ROUTE_CHECKS)).toThrow(expected);
  });

  it.each<[string, Partial<ProtectedRoute>]>([
    ['a serializer outside of a route', { facts: serialized }],
    ['one of a method', { transport: 'call', facts: serialized }],
    [
      'one inside as well',
      { transport: 'graphql', facts: { ...serialized, serializesInside: true } },
    ],
    ['one of an event', { transport: 'message', facts: { ...serialized, isEvent: true } }],
    [
      'one of what is off',
      { transport: 'websocket', facts: serialized, options: without({ enabled: false }) },
    ],
    ['a form that is not compared', { facts: form, options: without({ fingerprint: false }) }],
    ['a form of what is off', { facts: form, options: without({ enabled: false }) }],
  ])('do not mind %s', (_, changed) => {
    check({ ...route, ...changed }, ROUTE_CHECKS);
  });

  const shared = {
    ...route,
    facts: { ...pay, guards: ['KeyGuard', 'KeyGuard'] },
    options: without({ caller: { anonymous: 'shared' } }),
  };
  const retained = (retention: number) =>
    without({ outcome: { ...route.options.outcome, retention } });
  it.each<[string, Partial<HandlerFacts>, ProtectedRoute[]]>([
    ['on Payments.pay (POST /payments, in ShopModule) has no effect', { isSafe: true }, []],
    ['is on Payments.pay more than once', { hasOtherOptions: true }, []],
    ['Payments.pay (POST /payments, in ShopModule) has a guard (KeyGuard)', {}, [shared, shared]],
    [
      'The option "outcome.retention" of a, b is 86.4 s',
      {},
      ['a', 'b'].map((operation) => ({ ...route, operation, options: retained(86_400) })),
    ],
  ])('warn once: %s', (expected, facts, routes) => {
    const host = { ...payments, methods: [{ ...pay, ...facts }] };
    const warnings = [...warningsOf([host, host], routes)];
    expect(warnings).toEqual([expect.stringContaining(expected)]);
  });

  it.each<[string, ProtectedRoute]>([
    ['a message', { ...shared, transport: 'message' }],
    ['what is off', { ...shared, options: without({ ...shared.options, enabled: false }) }],
    ['what no guard authenticates', { ...shared, facts: pay }],
  ])('do not warn of unknown callers who share the scope of %s', (_, one) => {
    expect([...warningsOf([], [one])]).toEqual([]);
  });
});

describe('what is known of a class', () => {
  @Controller(['orders', 'v1/orders'])
  class Base {
    @Get()
    list() {
      return [];
    }

    @Idempotent()
    @UseInterceptors(FileInterceptor('photo'))
    @Post(':id/')
    upload() {
      return 'uploaded';
    }

    @UseInterceptors(FileInterceptor('receipt'))
    @Idempotent()
    @Post('receipts')
    attach() {
      return 'attached';
    }

    helper() {
      return 'nothing of Nest';
    }
  }

  @Controller('orders')
  class Orders extends Base {
    @EventPattern({ b: 1, a: 2 })
    paid() {
      return 'counted';
    }

    @Idempotent({ key: (id: string) => id })
    async send(id: string) {
      return Promise.resolve(id);
    }
  }

  it('is one plain object for each handler and idempotent method, inherited ones included', () => {
    const { methods } = readClass(Orders);
    const known = methods.map(({ name, kinds, isProtected, reports }) => ({
      ...{ name, kinds, isProtected, reports },
    }));
    expect(known).toEqual([
      { name: 'Orders.paid', kinds: ['rpc'], isProtected: false, reports: false },
      { name: 'Orders.send', kinds: [], isProtected: true, reports: true },
      { name: 'Orders.list', kinds: ['http'], isProtected: false, reports: false },
      { name: 'Orders.upload', kinds: ['http'], isProtected: true, reports: true },
      { name: 'Orders.attach', kinds: ['http'], isProtected: true, reports: true },
    ]);
    expect(methods.every((facts) => Object.getPrototypeOf(facts) === Object.prototype)).toBe(true);
  });

  it('has paths, and on which side of the interceptor others stand', () => {
    const [list, upload, attach] = readClass(Base).methods;
    expect(list).toMatchObject({ requests: ['GET /orders', 'GET /v1/orders'], isSafe: true });
    expect(upload).toMatchObject({
      requests: ['POST /orders/:id', 'POST /v1/orders/:id'],
      isSafe: false,
    });
    // Decorators apply from the bottom up: the lower one's interceptor is further out.
    const sides = [upload, attach].map((facts) => [
      ...[facts?.isOutermost, facts?.parsesFormsOutside, facts?.parsesFormsInside],
    ]);
    expect(sides).toEqual([
      [false, true, false],
      [true, false, true],
    ]);
  });
});
