import { describe, expect, it } from '@jest/globals';
import {
  Idempotent,
  IdempotencyModule,
  type IdempotencyModuleOptions,
  type IdempotencyOptions,
  type IdempotentCall,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { postgresStore } from 'nestjs-idempotency/postgres';
import {
  handlerLevel,
  resolveOptions,
  type ResolvedOptions,
} from '../../support/internals/nest/options.js';

type Group = Exclude<keyof IdempotencyOptions, 'enabled' | 'operation' | 'fingerprint'>;

type Settings<Value> = Exclude<
  Extract<Value, object>,
  readonly unknown[] | ((...args: never) => unknown)
>;

/** A group as it is given at each level, and each of its fields as resolved: a field that is missing here does not compile. */
interface Levels<Name extends Group> {
  readonly module: NonNullable<IdempotencyModuleOptions[Name]>;
  readonly class: NonNullable<IdempotencyOptions[Name]>;
  readonly method: NonNullable<IdempotencyOptions[Name]>;
  readonly resolved: Required<Settings<ResolvedOptions[Name]>> &
    Record<keyof Settings<NonNullable<IdempotencyOptions[Name]>>, unknown>;
}

const scope = () => 'tenant';
const from = () => 'key';
const keep = () => true;
const codec = {
  name: 'test',
  encode: () => ({ body: new Uint8Array() }),
  decode: () => undefined,
} as unknown as ResolvedOptions['outcome']['codec'];

const onTakeover = () => 'run' as const;

const GROUPS: { readonly [Name in Group]: Levels<Name> } = {
  key: {
    module: { from: 'X-Key', required: false, syntax: 'uuid', maxLength: 9 },
    class: { maxLength: 10, uniqueFor: 'principal' },
    method: from,
    resolved: { from, required: false, syntax: 'uuid', maxLength: 10, uniqueFor: 'principal' },
  },
  caller: {
    module: { scope, anonymous: 'ignore' },
    class: {},
    method: { anonymous: 'shared' },
    resolved: { scope, anonymous: 'shared' },
  },
  outcome: {
    module: { retentionMs: 5, maxBytes: 6, codec },
    class: keep,
    method: { storeBody: false, maxBytes: 7 },
    resolved: { keep, retentionMs: 5, storeBody: false, maxBytes: 7, codec },
  },
  duplicates: {
    module: { timeoutMs: 5, retryAfterMs: 6 },
    class: 'wait',
    method: { retryAfterMs: 7 },
    resolved: { mode: 'wait', timeoutMs: 5, retryAfterMs: 7 },
  },
  lease: {
    module: { durationMs: 1_000, maxExecutionMs: 2_000 },
    class: { durationMs: 1_500 },
    method: { onTakeover, recoverOn: 'always' },
    resolved: { durationMs: 1_500, maxExecutionMs: 2_000, onTakeover, recoverOn: 'always' },
  },
  storeErrors: {
    module: { commandTimeoutMs: 5, saveTimeoutMs: 6 },
    class: { saveTimeoutMs: 7, whenUnavailable: 'execute' },
    method: { whenNotSaved: 'error' },
    resolved: {
      commandTimeoutMs: 5,
      saveTimeoutMs: 7,
      whenUnavailable: 'execute',
      whenNotSaved: 'error',
    },
  },
  transaction: {
    module: { isolation: 'serializable', conflictRetries: 3 },
    class: false,
    method: true,
    resolved: { isolation: 'serializable', conflictRetries: 3 },
  },
  message: {
    module: { consumer: 'orders', redeliveryDelayMs: 5, maxPauseMs: 6_000 },
    class: { redeliveryDelayMs: 6 },
    method: { onFailure: 'dead-letter' },
    resolved: {
      consumer: 'orders',
      redeliveryDelayMs: 6,
      maxPauseMs: 6_000,
      onFailure: 'dead-letter',
    },
  },
  http: {
    module: { replayHeader: 'X-Replay', problemTypeBase: 'urn:problems', fastPath: false },
    class: { replayHeaders: ['ETag'], neverReplayHeaders: ['X-Own'] },
    method: { problemTypeBase: 'urn:own' },
    resolved: {
      replayHeader: 'X-Replay',
      replayHeaders: ['ETag'],
      neverReplayHeaders: ['X-Own'],
      problemTypeBase: 'urn:own',
      fastPath: false,
    },
  },
};

const names = Object.keys(GROUPS) as Group[];

const transactions = {
  store: postgresStore({ url: 'postgres://127.0.0.1/none' }),
  unitOfWork: {
    run: () => Promise.reject(new Error('unused')),
    isConflict: () => false,
    isInterruption: () => false,
    isReplyMismatch: () => false,
  } as unknown as NonNullable<IdempotencyModuleOptions['unitOfWork']>,
};

it.each(names)('the group "%s" merges over module, class and method, field by field', (name) => {
  const { module, class: ofClass, method, resolved } = GROUPS[name];
  const options = resolveOptions(
    'http',
    { ...transactions, [name]: module },
    handlerLevel('class', { [name]: ofClass }),
    handlerLevel('method', { [name]: method }),
  );
  expect(options[name]).toEqual(resolved);
});

describe('the group "transaction"', () => {
  const resolve = (...levels: NonNullable<IdempotencyOptions['transaction']>[]) =>
    resolveOptions(
      'http',
      transactions,
      ...levels.map((transaction) => handlerLevel('class', { transaction })),
    );

  it.each<[string, NonNullable<IdempotencyOptions['transaction']>[]]>([
    ['no level', []],
    ['an inner false', [true, false]],
    ['false after an object', [{ conflictRetries: 3 }, false]],
  ])('is off with %s', (_, levels) => {
    expect(resolve(...levels).transaction).toBe(false);
  });

  it('is turned on by an object, with the fields of outer levels', () => {
    expect(resolve({ conflictRetries: 3 }, { isolation: 'serializable' }).transaction).toEqual({
      isolation: 'serializable',
      conflictRetries: 3,
    });
  });

  it('makes a lost outcome an error', () => {
    expect(resolve(true).storeErrors.whenNotSaved).toBe('error');
  });
});

it('the types reject what the schema rejects', () => {
  const store = memoryStore();
  const call: IdempotentCall = { operation: 'pay', key: 'k', scope: 'alice' };
  const bad: (() => unknown)[] = [
    // @ts-expect-error -- a field outside of its group
    () => Idempotent({ durationMs: 1 }),
    // @ts-expect-error -- a field of another group
    () => Idempotent({ lease: { retentionMs: 1 } }),
    // @ts-expect-error -- a group of the module
    () => Idempotent({ limits: { maxWaiters: 1 } }),
    // @ts-expect-error -- a shorthand that does not exist
    () => Idempotent({ lease: 5 }),
    // @ts-expect-error -- each operation has its own name
    () => IdempotencyModule.forRoot({ store, operation: 'pay' }),
    // @ts-expect-error -- a call has no header
    (): IdempotentCall => ({ ...call, http: {} }),
  ];
  expect(bad).toHaveLength(6);
});
