import { Module, type ExecutionContext, type INestApplicationContext } from '@nestjs/common';
import { ExternalContextCreator, NestFactory } from '@nestjs/core';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { EMPTY, lastValueFrom, map, type Observable } from 'rxjs';
import { useFastPath } from '../../support/internals/nest.js';

interface Interceptor {
  intercept(context: ExecutionContext, next: { handle(): Observable<unknown> }): unknown;
}

type Arguments = [
  interceptors: readonly Interceptor[],
  args: readonly unknown[],
  instance: object,
  callback: () => unknown,
  next: () => Promise<unknown>,
  type: string,
  ...later: unknown[],
];

/** Nest's class that calls the interceptors of a request. */
type ConsumerClass = new () => { intercept(...args: Arguments): Promise<Observable<unknown>> };

@Module({})
class EmptyModule {}

let nest: INestApplicationContext;
let OfNest: ConsumerClass;

beforeAll(async () => {
  nest = await NestFactory.createApplicationContext(EmptyModule, { logger: false });
  OfNest = Reflect.get(nest.get(ExternalContextCreator), 'interceptorsConsumer').constructor;
});
afterAll(() => nest.close());

type Change = (original: (...args: Arguments) => Promise<any>, args: Arguments) => unknown;

const same: Change = (original, args) => original(...args);

/** Nest's class with a method of its own, as another version may have it. */
function classWith(change: Change): ConsumerClass {
  return class InterceptorsConsumer extends OfNest {
    override async intercept(
      interceptors: Arguments[0],
      args: Arguments[1],
      instance: Arguments[2],
      callback: Arguments[3],
      next: Arguments[4],
      type: Arguments[5],
    ): Promise<any> {
      return change(
        (...given) => super.intercept(...given),
        [...([interceptors, args, instance, callback, next, type] as const)],
      );
    }
  };
}

function redefined(name: 'name' | 'length', value: unknown): ConsumerClass {
  const Class = classWith(same);
  Object.defineProperty(Class.prototype.intercept, name, { value });
  return Class;
}

async function isReplacedIn(Class: ConsumerClass): Promise<boolean> {
  const { intercept } = Class.prototype;
  const creator: unknown = { interceptorsConsumer: new Class() };
  await useFastPath(creator as ExternalContextCreator);
  return Class.prototype.intercept !== intercept;
}

describe('the method that calls the interceptors of a request is replaced', () => {
  it('if it is as Nest has it', async () => {
    expect(await isReplacedIn(classWith(same))).toBe(true);
  });

  it('once, however many applications start', async () => {
    const Class = classWith(same);
    expect(await Promise.all([isReplacedIn(Class), isReplacedIn(Class)])).toEqual([true, true]);
    expect(await isReplacedIn(Class)).toBe(false);
    const { intercept } = Class.prototype;
    // A tool that wraps it later sees every request of the applications that start after that.
    Class.prototype.intercept = async function (...args: Arguments) {
      return Reflect.apply(intercept, this, args);
    };
    expect(await isReplacedIn(Class)).toBe(false);
  });

  it('by one that passes on what it is called with', async () => {
    const calls: unknown[] = [];
    const Class = classWith((original, args) => {
      calls.push(args);
      return original(...args);
    });
    await isReplacedIn(Class);
    calls.length = 0;
    const args: Arguments = [
      [{ intercept: (_, next) => next.handle().pipe(map((value) => [value])) }],
      [{}, {}, {}],
      {},
      () => undefined,
      () => Promise.resolve('value'),
      'http',
    ];
    const result = await new Class().intercept(...args);
    expect([await lastValueFrom(result), calls]).toEqual([['value'], [args]]);
  });
});

describe('the method that calls the interceptors of a request stays', () => {
  const others: Record<string, () => ConsumerClass> = {
    'in a class of another name': () => {
      const Class = classWith(same);
      Object.defineProperty(Class, 'name', { value: 'Interceptors' });
      return Class;
    },
    'if it is inherited': () => class InterceptorsConsumer extends OfNest {},
    'with another name': () => redefined('name', 'run'),
    'with another number of arguments': () => redefined('length', 7),
    'if a wrapper is in its place': () => {
      const Class = classWith(same);
      const { intercept } = Class.prototype;
      const wrapper = async function (this: object, ...args: Arguments) {
        return Reflect.apply(intercept, this, args);
      };
      Object.defineProperties(wrapper, { name: { value: 'intercept' }, length: { value: 6 } });
      Class.prototype.intercept = wrapper;
      return Class;
    },
    'without a method for the context': () => {
      const Class = classWith(same);
      Object.assign(Class.prototype, { createContext: undefined });
      return Class;
    },
  };
  it.each(Object.entries(others))('%s', async (_, make) => {
    expect(await isReplacedIn(make())).toBe(false);
  });

  const inTrial: Record<string, Change> = {
    'calls the handler twice': async (original, args) => {
      await args[4]();
      return original(...args);
    },
    'calls the interceptor twice': (original, [interceptors, ...others]) =>
      original([...interceptors, ...interceptors], ...others),
    'calls another interceptor': (original, [, ...others]) =>
      original([{ intercept: (_, next) => next.handle() }], ...others),
    'describes another class': (original, [interceptors, args, , ...others]) =>
      original(interceptors, args, {}, ...others),
    'describes another handler': (original, [interceptors, args, instance, , ...others]) =>
      original(interceptors, args, instance, () => undefined, ...others),
    'describes another request': (original, [interceptors, args, ...others]) =>
      original(interceptors, [{}, ...args.slice(1)], ...others),
    'describes another type of request': (original, [one, two, three, four, five]) =>
      original(one, two, three, four, five, 'rpc'),
    throws: () => {
      throw new Error('another version');
    },
    'emits another value': async (original, args) =>
      (await original(...args)).pipe(map((value) => ({ value }))),
    'emits nothing': async (original, args) => {
      await original(...args);
      return EMPTY;
    },
    'returns a value in place of a stream': async (original, args) =>
      lastValueFrom(await original(...args)),
  };
  it.each(Object.entries(inTrial))('if it %s', async (_, change) => {
    expect(await isReplacedIn(classWith(change))).toBe(false);
  });
});
