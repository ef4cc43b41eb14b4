import { Buffer } from 'node:buffer';
import { describe, expect, it } from '@jest/globals';
import type { ExecutionContext } from '@nestjs/common';
import { IdempotencyOptionsError } from '../../../support/internals/core.js';
import { payloadField } from '../../../support/internals/message.js';
import { contextOf, fromEverywhere, ORDER, withPayload } from './received.js';
import { expectUnreadable } from './rejected.js';

describe('a field of the payload', () => {
  const id = payloadField('order.id');

  it('is found in messages of every transport', async () => {
    for (const context of await fromEverywhere()) expect(id(context)).toBe('order-7');
  });

  const elsewhere: [string, ExecutionContext][] = [
    [
      'a WebSocket’s message',
      contextOf('ws', [{ order: { id: 'client' } }, ORDER, undefined, 'p']),
    ],
    [
      'the arguments of a GraphQL field',
      contextOf('graphql', [
        { order: { id: 'root' } },
        Object.assign(Object.create(null), ORDER),
        {},
        {},
      ]),
    ],
    ['the body of a request', contextOf('http', [{ body: ORDER, order: { id: 'request' } }, {}])],
  ];
  it.each(elsewhere)('is found in %s', (_, context) => {
    expect(id(context)).toBe('order-7');
  });

  it('is absent where a handler is called in another way', () => {
    expect(id(contextOf('cron', [ORDER, ORDER]))).toBeUndefined();
  });

  it('may be an integer, which is the same key as its digits', () => {
    const number = payloadField('n');
    expect(number(withPayload({ n: 7 }))).toBe('7');
    expect(number(withPayload({ n: '7' }))).toBe('7');
    expect(number(withPayload({ n: -1 }))).toBe('-1');
    expect(number(withPayload({ n: 0 }))).toBe('0');
  });

  const absent: unknown[] = [
    {},
    { order: null },
    { order: {} },
    { order: { id: null } },
    { order: { id: undefined } },
    { order: 'text' },
    { 'order.id': 'order-7' },
    Object.create({ order: { id: 'inherited' } }),
    'order.id',
    7,
    null,
    undefined,
  ];
  it.each(absent)('is absent in %j', (payload) => {
    expect(id(withPayload(payload))).toBeUndefined();
  });

  it('excludes members that every object, string or array has', () => {
    for (const path of ['constructor.name', 'length', 'order.id.length', '__proto__', 'toString']) {
      expect(payloadField(path)(withPayload(ORDER))).toBeUndefined();
      expect(payloadField(path)(withPayload('text'))).toBeUndefined();
    }
  });

  it('may be called __proto__', () => {
    const payload: unknown = JSON.parse('{"__proto__":{"id":"order-7"}}');
    expect(payloadField('__proto__.id')(withPayload(payload))).toBe('order-7');
  });

  const unreadable: [string, unknown][] = [
    ['empty', ''],
    ['an object', { value: 7 }],
    ['an array of one string', ['order-7']],
    ['a boolean', true],
    ['a fraction', 1.5],
    ['beyond the safe integers', 2 ** 53],
    ['NaN', NaN],
    ['a BigInt', 7n],
    ['a date', new Date(0)],
    ['bytes', Buffer.from('order-7')],
    ['a string with a replacement character', 'order-\ufffd'],
  ];
  it.each(unreadable)('is rejected when it is %s', (_, value) => {
    expectUnreadable(() => id(withPayload({ order: { id: value } })), 'order-');
  });

  it('is rejected behind an array, for a list is not a key', () => {
    expectUnreadable(() => id(withPayload({ order: [{ id: 'order-7' }] })));
    expectUnreadable(() => id(withPayload([ORDER])));
    expectUnreadable(() => payloadField('items.0')(withPayload({ items: ['order-7'] })));
    expectUnreadable(() => payloadField('items.length')(withPayload({ items: ['a'] })));
  });

  it.each(['', '.', 'order.', '.id', 'order..id', undefined, 7, ['order', 'id']])(
    'rejects the path %p at once',
    (path) => {
      expect(() => payloadField(path as string)).toThrow(IdempotencyOptionsError);
      expect(() => payloadField(path as string)).toThrow(/payloadField\(path\)/);
    },
  );
});
