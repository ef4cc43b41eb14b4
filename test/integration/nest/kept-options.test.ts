import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import type { DynamicModule } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { IdempotencyModule, IdempotencyService, type IdempotentCall } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { IdempotencyEngine } from '../../support/internals/core/engine.js';

/** As in the service. */
const MAX_KEPT_OPTIONS = 1_000;

let app: TestingModule;
let seen: unknown[];

async function start(imported: DynamicModule): Promise<void> {
  app = await Test.createTestingModule({ imports: [imported] }).compile();
  await app.init();
  const engine = app.get(IdempotencyEngine, { strict: false });
  const begin = engine.begin.bind(engine);
  seen = [];
  engine.begin = (request) => {
    seen.push(request.options);
    return begin(request);
  };
}

beforeEach(() => start(IdempotencyModule.forRoot({ store: memoryStore() })));
afterEach(() => app.close());

type Groups = Omit<IdempotentCall, 'operation' | 'key' | 'scope'>;

/** Runs a call. @returns the options that the engine got, the same object where they were not resolved again. */
async function run(groups: Groups = {}, operation = 'pay'): Promise<unknown> {
  const call = { operation, key: randomUUID(), scope: 'alice', ...groups };
  await app.get(IdempotencyService, { strict: false }).run(call, () => 'done');
  return seen.at(-1);
}

it('options of calls are resolved once per operation, for equal fields in new objects', async () => {
  const keep = () => true;
  const groups = (): Groups => ({
    lease: { durationMs: 1_000, maxExecutionMs: 2_000 },
    duplicates: 'wait',
    outcome: { keep, retentionMs: 5 },
    payload: { amount: Math.random() },
  });
  const first = await run(groups());
  expect(first).toMatchObject({ lease: { durationMs: 1_000 }, duplicates: { mode: 'wait' } });
  expect(await run(groups())).toBe(first);
  const refund = await run(groups(), 'refund');
  expect(refund).not.toBe(first);
  expect(await run(groups())).toBe(first);
  expect(await run(groups(), 'refund')).toBe(refund);
});

it.each<[string, Groups, Groups, object]>([
  [
    'a field differs',
    { lease: { durationMs: 200 } },
    { lease: { durationMs: 300 } },
    { lease: { durationMs: 300 } },
  ],
  [
    'a field is missing',
    { duplicates: { timeoutMs: 5 } },
    { duplicates: {} },
    { duplicates: { timeoutMs: 10_000 } },
  ],
  [
    'a field is added',
    { duplicates: {} },
    { duplicates: { timeoutMs: 5 } },
    { duplicates: { timeoutMs: 5 } },
  ],
  ['a group is missing', { duplicates: 'wait' }, {}, { duplicates: { mode: 'reject' } }],
  ['a group is added', {}, { duplicates: 'wait' }, { duplicates: { mode: 'wait' } }],
  [
    'a group takes another form',
    { duplicates: { mode: 'reject' } },
    { duplicates: 'wait' },
    { duplicates: { mode: 'wait' } },
  ],
])('they are resolved again when %s', async (_, before, after, expected) => {
  const first = await run(before);
  const second = await run(after);
  expect(second).not.toBe(first);
  expect(second).toMatchObject(expected);
});

it('they are resolved again when a field of the same object has changed', async () => {
  const lease = { durationMs: 200 };
  await run({ lease });
  lease.durationMs = 300;
  expect(await run({ lease })).toMatchObject({ lease: { durationMs: 300 } });
});

it('they are resolved again for a function defined inside of the call', async () => {
  const groups = (): Groups => ({ outcome: () => true });
  expect(await run(groups())).not.toBe(await run(groups()));
});

it('invalid ones are not kept', async () => {
  const call = { operation: 'pay', key: 'k', scope: 'alice', lease: { durationMs: 1 } };
  const service = app.get(IdempotencyService, { strict: false });
  for (let times = 0; times < 2; times += 1) {
    await expect(service.run(call, () => 'done')).rejects.toThrow('"lease.durationMs"');
  }
  expect(seen).toEqual([]);
});

it('a bounded number of operations is kept', async () => {
  const first = await run();
  for (let count = 1; count < MAX_KEPT_OPTIONS; count += 1) await run({}, `made-up-${count}`);
  expect(await run()).toBe(first);
  await run({}, 'one more');
  expect(await run()).not.toBe(first);
});

/** As a class of configuration: its options are getters, which neither a spread nor `Object.keys()` sees. */
class Lease {
  readonly #durationMs: number;

  constructor(durationMs: number) {
    this.#durationMs = durationMs;
  }

  get durationMs(): number {
    return this.#durationMs;
  }
}

it('two calls of an operation whose groups are instances of a class each get their own options', async () => {
  expect(await run({ lease: new Lease(200) })).toMatchObject({ lease: { durationMs: 200 } });
  expect(await run({ lease: new Lease(60_000) })).toMatchObject({ lease: { durationMs: 60_000 } });
});

it('the getters of a call that is an instance of a class count', async () => {
  class SendInvoice {
    readonly operation = 'invoice.send';
    readonly key = randomUUID();
    readonly scope = 'alice';

    get lease(): object {
      return { durationMs: 200 };
    }
  }
  await app.get(IdempotencyService, { strict: false }).run(new SendInvoice(), () => 'done');
  expect(seen.at(-1)).toMatchObject({ lease: { durationMs: 200 } });
});

class Configured {
  readonly #store = memoryStore();

  get store() {
    return this.#store;
  }

  get lease() {
    return new Lease(200);
  }

  get outcome() {
    return Object.create({ retentionMs: 5_000 }) as object;
  }
}

it.each([
  ['forRoot', () => IdempotencyModule.forRoot(new Configured())],
  ['forRootAsync', () => IdempotencyModule.forRootAsync({ useFactory: () => new Configured() })],
])('%s takes an instance of a class with getters', async (_, imported) => {
  await app.close();
  await start(imported());
  expect(await run({ duplicates: 'wait' })).toMatchObject({
    lease: { durationMs: 200 },
    outcome: { retentionMs: 5_000 },
    duplicates: { mode: 'wait' },
  });
});
