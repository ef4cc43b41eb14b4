import { randomUUID } from 'node:crypto';
import { Test, type TestingModule } from '@nestjs/testing';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import {
  currentIdempotencyContext,
  FailureReplayedError,
  IdempotencyModule,
  IdempotencyOptionsError,
  IdempotencyService,
  type IdempotentCall,
  jsonCodec,
  OperationRejectedError,
  type OutcomePolicy,
  ValueNotStorableError,
} from 'nestjs-idempotency';
import { messagePackCodec } from 'nestjs-idempotency/messagepack';
import { memoryStore } from 'nestjs-idempotency/memory';
import { Gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/nest/calling-app.js';
import { optionAt } from '../../support/nest/option-at.js';
import { Tally } from '../../support/waiting/tally.js';

const call = (changes: Partial<IdempotentCall> = {}): IdempotentCall => ({
  operation: 'pay',
  key: randomUUID(),
  scope: 'alice',
  ...changes,
});

/** A message without members: its class is its only content. */
class Recalculate {
  total() {
    return 0;
  }
}

describe('IdempotencyService.run()', () => {
  let app: TestingModule;
  let service: IdempotencyService;

  beforeAll(async () => {
    const options = {
      store: memoryStore(),
      duplicates: { retryAfter: 3_000 },
    };
    app = await Test.createTestingModule({
      imports: [IdempotencyModule.forRoot(options)],
    }).compile();
    await app.init();
    service = app.get(IdempotencyService, { strict: false });
  });
  afterAll(() => app.close());

  /** Runs the same call twice. @returns both values, and how often it was executed. */
  async function twice(operation: () => unknown, request = call()) {
    let executions = 0;
    const counted = () => {
      executions += 1;
      return operation();
    };
    const values = [await service.run(request, counted), await service.run(request, counted)];
    return { values, executions };
  }

  describe('returns the first result to every retry:', () => {
    it.each<[string, unknown]>([
      ['an object', { id: 7, nested: { list: [1, null, 'ü€😀'] } }],
      ['a string', 'paid'],
      ['an empty string', ''],
      ['0', 0],
      ['false', false],
      ['null', null],
      ['undefined', undefined],
      ['a lone surrogate', '\ud800'],
      ['a member called __proto__', JSON.parse('{"__proto__":1}')],
    ])('%s', async (_, value) => {
      expect(await twice(() => value)).toEqual({ values: [value, value], executions: 1 });
    });

    it('the value of a promise', async () => {
      expect(await twice(() => Promise.resolve('paid'))).toEqual({
        values: ['paid', 'paid'],
        executions: 1,
      });
    });

    it('the JSON form of a value, to the first caller as well', async () => {
      const request = call({ outcome: { codec: jsonCodec({ dates: 'text' }) } });
      const stored = { at: '1970-01-01T00:00:00.000Z', zero: 0 };
      expect(await twice(() => ({ at: new Date(0), zero: -0, not: undefined }), request)).toEqual({
        values: [stored, stored],
        executions: 1,
      });
    });

    it.each<[string, unknown]>([
      ['a Date', new Date(7)],
      ['a Map of BigInts', new Map([['total', 10n ** 30n]])],
      ['bytes inside an object', { bytes: Buffer.from([0, 0xff, 0xc1, 0x0a]) }],
    ])('%s, as MessagePack', async (_, value) => {
      const request = call({ outcome: { codec: messagePackCodec() } });
      expect(await twice(() => value, request)).toStrictEqual({
        values: [value, value],
        executions: 1,
      });
    });

    it('a copy that no caller can change for another', async () => {
      const request = call();
      const value = { list: [1] };
      const first = await service.run(request, () => value);
      first.list.push(2);
      expect(value).toEqual({ list: [1] });
      expect(await service.run(request, () => value)).toEqual({ list: [1] });
    });
  });

  describe('a value that cannot be stored', () => {
    const circle: { self?: unknown } = {};
    circle.self = circle;

    it.each<[string, unknown]>([
      ['a BigInt', 7n],
      ['a circle', circle],
      ['a Date', { at: new Date(0) }],
    ])('fails the first caller and does not run again: %s', async (_, value) => {
      const request = call();
      let executions = 0;
      const operation = () => {
        executions += 1;
        return value;
      };
      expect(await rejection(service.run(request, operation))).toBeInstanceOf(
        ValueNotStorableError,
      );
      const error = await rejection(service.run(request, operation));
      expect(error).toBeInstanceOf(OperationRejectedError);
      expect(error).toMatchObject({ code: 'idempotency_response_not_kept', retryable: false });
      expect(executions).toBe(1);
    });
  });

  it('a value of a removed codec does not run again', async () => {
    const request = call();
    await service.run({ ...request, outcome: { codec: messagePackCodec() } }, () => new Date(7));
    let executions = 0;
    const error = await rejection(service.run(request, () => (executions += 1)));
    expect(error).toBeInstanceOf(OperationRejectedError);
    expect(error).toMatchObject({ code: 'idempotency_response_not_kept', retryable: false });
    expect(error.message).toContain('"messagepack"');
    expect(executions).toBe(0);
  });

  describe('an operation that throws', () => {
    it('rejects its own caller with its own error, and runs again', async () => {
      const request = call();
      const bug = new Error('the provider is down');
      const failing = () => Promise.reject(bug);
      expect(await rejection(service.run(request, failing))).toBe(bug);
      expect(await service.run(request, () => 'paid')).toBe('paid');
      expect(await service.run(request, failing)).toBe('paid');
    });

    it('and whose failure is kept rejects every caller, the first with its own error', async () => {
      class Declined extends Error {
        override readonly name = 'Declined';
      }
      const request = call({ outcome: () => true });
      const declined = new Declined('no funds');
      let executions = 0;
      const failing = () => {
        executions += 1;
        throw declined;
      };
      expect(await rejection(service.run(request, failing))).toBe(declined);
      const error = await rejection(service.run(request, failing));
      expect(error).toBeInstanceOf(FailureReplayedError);
      expect(error.failure).toEqual({ name: 'Declined', message: 'no funds' });
      expect(executions).toBe(1);
    });

    it.each<[string, unknown]>([
      ['a string', 'no funds'],
      ['undefined', undefined],
      ['an object without a prototype', Object.create(null)],
      ['a symbol', Symbol('s')],
      ['an error whose message is a BigInt', Object.assign(new Error(), { message: 1n })],
    ])('can throw anything: %s', async (_, thrown) => {
      const request = call({ outcome: () => true });
      const failing = () => {
        throw thrown;
      };
      expect(await rejection(service.run(request, failing))).toBe(thrown);
      const error = await rejection(service.run(request, failing));
      expect(error).toBeInstanceOf(FailureReplayedError);
      expect(error.failure).toEqual({ name: expect.any(String), message: expect.any(String) });
    });
  });

  describe('outcome.keep', () => {
    it('decides by the thrown value', async () => {
      const keep: OutcomePolicy = ({ error }) => error instanceof RangeError;
      const [kept, released] = [call({ outcome: keep }), call({ outcome: keep })];
      const failing = (error: Error) => () => Promise.reject(error);
      await rejection(service.run(kept, failing(new RangeError('kept'))));
      await rejection(service.run(released, failing(new Error('released'))));
      expect(await rejection(service.run(kept, () => 1))).toBeInstanceOf(FailureReplayedError);
      expect(await service.run(released, () => 1)).toBe(1);
    });

    it('can discard the returned value: the caller gets it unchanged', async () => {
      const request = call({ outcome: () => false });
      const at = new Date(0);
      expect(await service.run(request, () => at)).toBe(at);
      expect(await service.run(request, () => 'again')).toBe('again');
    });

    it('that throws keeps the failure: a retry could repeat its effect', async () => {
      const keep = () => {
        throw new Error('a bug in the policy');
      };
      const request = call({ outcome: keep });
      const bug = new Error('the provider is down');
      expect(await rejection(service.run(request, () => Promise.reject(bug)))).toBe(bug);
      expect(await rejection(service.run(request, () => 'paid'))).toBeInstanceOf(
        FailureReplayedError,
      );
    });
  });

  describe('a retry', () => {
    it('with another payload is rejected, and changes nothing', async () => {
      const request = call({ payload: { amount: 1, currency: 'EUR' } });
      await service.run(request, () => 'paid');
      for (const payload of [{ amount: 2, currency: 'EUR' }, undefined, null, [], 'x']) {
        const error = await rejection(service.run({ ...request, payload }, () => 'other'));
        expect(error).toBeInstanceOf(OperationRejectedError);
        expect(error).toMatchObject({ code: 'idempotency_key_reused', retryable: false });
        expect(error.retryAfterMs).toBeUndefined();
      }
      const reordered = { ...request, payload: { currency: 'EUR', amount: 1 } };
      expect(await service.run(reordered, () => 'other')).toBe('paid');
    });

    it.each<[string, Partial<IdempotentCall>]>([
      ['key', { key: 'another' }],
      ['operation', { operation: 'refund' }],
      ['scope', { scope: 'bob' }],
      ['tenant', { scope: ['acme', 'alice'] }],
    ])('with another %s is a separate operation', async (_, changes) => {
      const request = call();
      expect(await service.run(request, () => 'one')).toBe('one');
      const other = 'key' in changes ? { key: randomUUID() } : changes;
      expect(await service.run({ ...request, ...other }, () => 'two')).toBe('two');
    });

    it('can pass a scope of one part as a string or in an array', async () => {
      const request = call();
      await service.run(request, () => 'paid');
      expect(await service.run({ ...request, scope: ['alice'] }, () => 'other')).toBe('paid');
    });

    it('while the first one runs is rejected with duplicates.retryAfter of the module', async () => {
      const request = call();
      const gate = Gate.closed();
      const started = new Tally();
      const first = service.run(request, async () => {
        started.add();
        await gate.pass();
        return 'paid';
      });
      await started.reached(1);
      const error = await rejection(service.run(request, () => 'other'));
      expect(error).toBeInstanceOf(OperationRejectedError);
      expect(error).toMatchObject({
        code: 'idempotency_in_progress',
        retryable: true,
        retryAfterMs: 3_000,
      });
      gate.open();
      expect(await first).toBe('paid');
    });
  });

  describe('the operation', () => {
    it('gets its context, which is the same one below', async () => {
      const request = call({ scope: ['acme', 7] });
      let below: unknown;
      const context = await new Promise<any>((resolve) => {
        void service.run(request, async (given) => {
          await new Promise(setImmediate);
          below = currentIdempotencyContext();
          resolve(given);
        });
      });
      expect(below).toBe(context);
      expect(context).toMatchObject({
        operation: 'pay',
        key: request.key,
        scope: ['acme', 7],
        attempt: 1,
        isTakeover: false,
        isProtected: true,
      });
      expect(context.fencingToken).toBeGreaterThan(0);
      expect(context.signal.aborted).toBe(false);
      expect(currentIdempotencyContext()).toBeUndefined();
    });
  });

  describe('a call that is not well-formed', () => {
    it.each<[string, unknown, string]>([
      ['key', '', 'key'],
      ['key', undefined, 'key'],
      ['key', 7, 'key'],
      ['operation', '', 'operation'],
      ['operation', null, 'operation'],
      ['scope', '', 'scope'],
      ['scope', [], 'scope'],
      ['scope', ['acme', ''], 'scope'],
      ['scope', ['acme', undefined], 'scope'],
      ['scope', 1.5, 'scope'],
      ['scope', undefined, 'scope'],
      ['scope', null, 'scope'],
      ['scope', { tenant: 'acme' }, 'scope'],
      ['outcome.keep', true, 'outcome.keep'],
      ['lease.duration', 1, 'lease.duration'],
      ['duplicates.mode', 'queue', 'duplicates.mode'],
      ['ttl', 60, 'ttl'],
      ['store', {}, 'store'],
    ])('is rejected with the name, and does not run: %s is %j', async (name, value, named) => {
      let executions = 0;
      const request = { ...call(), ...optionAt(name, value) };
      const error = await rejection(service.run(request, () => (executions += 1)));
      expect(error).toBeInstanceOf(IdempotencyOptionsError);
      expect(error.message).toContain(`"${named}"`);
      expect(executions).toBe(0);
    });

    it.each([undefined, null, 'payment-1'])(
      'is rejected when it is not an object: %j',
      async (none) => {
        let executions = 0;
        const error = await rejection(
          service.run(none as unknown as IdempotentCall, () => (executions += 1)),
        );
        expect(error).toBeInstanceOf(IdempotencyOptionsError);
        expect(error.message).toContain('IdempotencyService.run()');
        expect(error.message).not.toContain('payment-1');
        expect(executions).toBe(0);
      },
    );

    it('does not show its key in the message', async () => {
      const request = call({ key: 4_242 as unknown as string });
      expect((await rejection(service.run(request, () => 1))).message).not.toContain('4242');
    });

    it.each<[string, unknown, string]>([
      ['a Map', new Map([['amount', 1]]), 'options_invalid'],
      ['a Map by toJSON', [{ toJSON: () => new Map() }], 'options_invalid'],
      ['an instance without members', new Recalculate(), 'options_invalid'],
      ['only undefined members', { amount: undefined }, 'content_invalid'],
    ])('has a payload that serializes to nothing: %s', async (_, payload, code) => {
      const run = jest.fn();
      const error = await rejection(service.run(call({ payload }), run));
      expect(error).toMatchObject({ code: `idempotency_${code}` });
      expect(error.message).toContain('option "payload" of');
      expect(run).not.toHaveBeenCalled();
    });

    it('has a payload that JSON cannot represent', async () => {
      const error = await rejection(service.run(call({ payload: 7n }), () => 1));
      expect(error).toMatchObject({ code: 'idempotency_content_invalid' });
    });
  });
});
