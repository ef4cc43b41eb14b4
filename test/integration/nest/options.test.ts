import { randomUUID } from 'node:crypto';
import type { DynamicModule } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  IdempotencyModule,
  type IdempotencyModuleOptions,
  type IdempotencyOptions,
  IdempotencyOptionsError,
  IdempotencyService,
  IdempotencyStore,
  Idempotent,
  type IdempotentCall,
  keepResponses,
  keepSuccesses,
  staticKeys,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { DelegatingStore } from 'nestjs-idempotency/store';
import { JSON_CODEC } from '../../support/internals/codecs.js';
import {
  callLevel,
  handlerLevel,
  methodRoute,
  type OperationKind,
  type ResolvedOptions,
  resolveModuleOptions,
  resolveOptions,
} from '../../support/internals/nest.js';
import { LoggedLines } from '../../support/nest/logged-lines.js';
import { optionAt } from '../../support/nest/option-at.js';
import { IdempotencyEngine } from '../../support/internals/core.js';

const store = memoryStore();

function resolve(module: object, ofClass: object = {}, ofMethod: object = {}) {
  return resolveOptions(
    'http',
    { store, ...module },
    handlerLevel('class', ofClass),
    handlerLevel('method', ofMethod),
  );
}

const ofModule = (options: object) => resolveModuleOptions({ store, ...options });

const ofCall = (options: object) =>
  resolveOptions('call', { store }, callLevel('run()', options, ['key', 'scope', 'payload']));

describe('options', () => {
  it('that are not given take their defaults', () => {
    expect(resolve({})).toEqual({
      store,
      enabled: true,
      key: {
        from: 'Idempotency-Key',
        required: true,
        syntax: 'lenient',
        maxLength: 255,
        uniqueFor: 'operation',
      },
      caller: { anonymous: 'reject' },
      fingerprint: 'canonical',
      outcome: {
        keep: keepResponses,
        retention: 86_400_000,
        storeBody: true,
        maxBytes: 1_048_576,
        compression: false,
        offload: {
          aboveBytes: 262_144,
          delivery: 'stored-first',
          maxBytes: 1_073_741_824,
          putTimeout: 60_000,
          getTimeout: 10_000,
        },
        codec: JSON_CODEC,
      },
      duplicates: { mode: 'reject', timeout: 10_000, retryAfter: 1_000 },
      lease: {
        duration: 10_000,
        maxExecution: 300_000,
        onTakeover: 'run',
        recoverOn: 'takeover',
      },
      storeErrors: {
        whenUnavailable: 'reject',
        whenNotSaved: 'respond',
        commandTimeout: 500,
        saveTimeout: 1_000,
      },
      transaction: false,
      message: { onFailure: 'requeue', redeliveryDelay: 1_000, maxPause: 600_000 },
      http: {
        fastPath: true,
        replayHeader: 'Idempotent-Replayed',
        neverReplayHeaders: [],
        problemTypeBase: expect.stringMatching(/^https:.*\/problems$/),
      },
      annotate: false,
      breaker: false,
      reconcile: false,
      operator: { settledFor: 60_000 },
      protectDigests: false,
      limits: { maxWaiters: 1_000, maxUploads: 16, shutdownTimeout: 10_000 },
    });
    expect(ofModule({ breaker: true, reconcile: true })).toMatchObject({
      breaker: {
        errorThresholdPercentage: 50,
        volumeThreshold: 10,
        window: 2_000,
        probeInterval: 1_000,
      },
      reconcile: { interval: 60_000, batchSize: 100, after: 300_000 },
    });
  });

  it('that are undefined count as not given on every level, alone and in groups', () => {
    const options = resolve(
      { lease: { duration: 2_000 }, caller: { scope: undefined }, key: undefined },
      { lease: { duration: undefined }, key: { syntax: 'uuid' } },
      { lease: undefined, key: { syntax: undefined }, operation: undefined },
    );
    expect(options.lease.duration).toBe(2_000);
    expect(options.key.syntax).toBe('uuid');
    expect(options).not.toHaveProperty('operation');
    expect(options.caller).not.toHaveProperty('scope');
    expect(ofModule({ limits: { maxWaiters: undefined } }).limits.maxWaiters).toBe(1_000);
  });

  it('may be false or 0 without falling back to the default', () => {
    const { key, outcome } = resolve({}, { key: { required: false }, outcome: { maxBytes: 0 } });
    expect([key.required, outcome.maxBytes]).toEqual([false, 0]);
    expect(ofModule({ limits: { maxWaiters: 0 } }).limits.maxWaiters).toBe(0);
  });

  it('are deeply frozen, and copies of what was given', () => {
    const given = {
      lease: { duration: 2_000 },
      http: { replayHeaders: ['etag'] },
      fingerprint: { include: ['a'] },
    };
    const options = resolve({}, given);
    given.lease.duration = 3_000;
    given.http.replayHeaders.push('link');
    given.fingerprint.include.push('b');
    expect(options).toMatchObject({
      lease: { duration: 2_000 },
      http: { replayHeaders: ['etag'] },
      fingerprint: { include: ['a'] },
    });
    const objects = objectsIn(options);
    expect(objects.length).toBeGreaterThan(10);
    expect(objects.every(Object.isFrozen)).toBe(true);
  });

  it.each<[string, object]>([
    ["a key's name or function", { key: 'X-Key' }],
    ['a mode', { duplicates: 'wait' }],
    ['a policy', { outcome: keepSuccesses }],
  ])('take %s in place of their group', (_, shorthand) => {
    const { key, duplicates, outcome } = resolve(
      { key: { maxLength: 9 }, duplicates: { timeout: 9 }, outcome: { maxBytes: 9 } },
      shorthand,
    );
    expect([key.maxLength, duplicates.timeout, outcome.maxBytes]).toEqual([9, 9, 9]);
    expect([key.from, duplicates.mode, outcome.keep]).toEqual([
      'key' in shorthand ? 'X-Key' : 'Idempotency-Key',
      'duplicates' in shorthand ? 'wait' : 'reject',
      'outcome' in shorthand ? keepSuccesses : keepResponses,
    ]);
  });
});

/** The options, their groups and lists; not the store and the codec, which are the application's own. */
function objectsIn(value: unknown): unknown[] {
  if (typeof value !== 'object' || value === null) return [];
  const parts = Object.entries(value).filter(([name]) => name !== 'store' && name !== 'codec');
  return [value, ...parts.flatMap(([, part]) => objectsIn(part))];
}

describe('the kind of an operation decides on', () => {
  const kinds: OperationKind[] = ['http', 'call', 'graphql', 'socket', 'message', 'event'];

  it('what is kept: values do not take the policy of the module, which selects by status', () => {
    const module = { store, outcome: () => false };
    const kept = kinds.map((kind) => resolveOptions(kind, module).outcome.keep);
    expect(kept).toEqual([module.outcome, ...kinds.slice(1).map(() => keepSuccesses)]);
    const own = () => true;
    for (const level of ['class', 'method'] as const) {
      const { outcome } = resolveOptions('event', module, handlerLevel(level, { outcome: own }));
      expect(outcome.keep).toBe(own);
    }
  });

  it('how dates are stored, what a duplicate gets and what follows an unsaved outcome', () => {
    const dated = { store, outcome: { maxBytes: 9 } };
    expect(
      kinds.map((kind) => {
        const { outcome, duplicates, storeErrors } = resolveOptions(kind, dated);
        expect(outcome.maxBytes).toBe(9);
        const codec = outcome.codec === JSON_CODEC ? 'values' : 'wire';
        return [kind, codec, duplicates.mode, storeErrors.whenNotSaved];
      }),
    ).toEqual([
      ['http', 'values', 'reject', 'respond'],
      ['call', 'values', 'reject', 'respond'],
      ['graphql', 'values', 'reject', 'respond'],
      ['socket', 'wire', 'reject', 'respond'],
      ['message', 'wire', 'wait', 'respond'],
      ['event', 'wire', 'wait', 'error'],
    ]);
  });

  it('nothing that the module gives', () => {
    const module = {
      store,
      outcome: { codec: JSON_CODEC },
      duplicates: 'reject',
      storeErrors: { whenNotSaved: 'respond' },
    } as const;
    const { outcome, duplicates, storeErrors } = resolveOptions('event', module);
    expect([outcome.codec, duplicates.mode, storeErrors.whenNotSaved]).toEqual([
      JSON_CODEC,
      'reject',
      'respond',
    ]);
  });
});

describe('an unknown name', () => {
  it.each<[string, object, string]>([
    [
      'a misspelt one',
      { enabeld: true },
      '"enabeld" is not an option of @Idempotent(). Did you mean "enabled"?',
    ],
    [
      'in a group',
      { lease: { duratonMs: 1 } },
      '"lease.duratonMs" is not an option of @Idempotent(). Did you mean "lease.duration"?',
    ],
    [
      'of a group, outside of it',
      { durationMs: 1 },
      '"durationMs" is not an option of @Idempotent(). Did you mean "lease.duration"?',
    ],
    [
      'of another group',
      { lease: { retentionMs: 1 } },
      '"lease.retentionMs" is not an option of @Idempotent(). Did you mean "outcome.retention"?',
    ],
    ['of another package', { ttl: 1 }, 'Did you mean "outcome.retention"?'],
    ['of another package', { lockTimeout: 1 }, 'Did you mean "lease.duration"?'],
    ['of another package', { headerName: 'X' }, 'Did you mean "key"?'],
    ['of another package', { keyFrom: { payload: 'id' } }, 'Did you mean "key.from"?'],
    ['of another package', { storeIf: () => true }, 'Did you mean "outcome.keep"?'],
    [
      'of a path, in the place of its group',
      { key: { payload: 'id' } },
      '"key.payload" is not an option of @Idempotent(). Write key: { from: { payload: … } }.',
    ],
    [
      'of a context, in the place of its group',
      { caller: { rpc: () => 'tenant' } },
      'Write caller: { scope: { rpc: … } }.',
    ],
    [
      'of a context, misspelt',
      { key: { from: { grahpql: 'X-Key' } } },
      '"grahpql" is not an option of "key.from". Did you mean "graphql"?',
    ],
    [
      'of a context that has no transport',
      { caller: { scope: { cli: () => 'tenant' } } },
      '"cli" is not an option of "caller.scope". Valid options: http, graphql, rpc, ws.',
    ],
    ['of a source', { key: { from: { header: 'X-Key' } } }, "Give the header's name itself"],
    [
      'of two sources',
      { key: { from: { rpc: { payload: 'id', arg: 'id' } } } },
      "must be the name of a header field, one path ({ payload: 'meta.eventId' }), or a function, but",
    ],
    ['of a store', { keyPrefix: 'x' }, 'It is an option of the store: redisStore('],
    [
      'of the module',
      { breaker: true },
      'It is an option of the module: IdempotencyModule.forRoot(',
    ],
    [
      'of a group of the module',
      { maxWaiters: 1 },
      '"limits.maxWaiters" is an option of the module: IdempotencyModule.forRoot(',
    ],
    ['like none', { colour: 1 }, '"colour" is not an option of @Idempotent(). Valid options: '],
    [
      'like none in a group',
      { key: { colour: 1 } },
      'Valid options: key.from, key.required, key.syntax, key.maxLength, key.uniqueFor.',
    ],
  ])('%s is rejected with a remedy: %j', (_, options, remedy) => {
    expect(() => resolve({}, {}, options)).toThrow(IdempotencyOptionsError);
    expect(() => resolve({}, options)).toThrow(remedy);
  });

  it.each<[string, object, string]>([
    ['a misspelt one', { store, duplicate: 'wait' }, 'Did you mean "duplicates"?'],
    ['a misspelt group', { outcomes: 1 }, 'Did you mean "outcome"?'],
    ['a misspelt field', { rentionMs: 1 }, 'Did you mean "outcome.retention"?'],
    ['of another package', { lockTtl: 1 }, 'Did you mean "lease.duration"?'],
    ['of another package', { adapter: {} }, 'Did you mean "store"?'],
    ['in a group', { reconcile: { intervalMs: 1 } }, 'Did you mean "reconcile.interval"?'],
    ['in a group', { breaker: { volumeTreshold: 1 } }, 'Did you mean "breaker.volumeThreshold"?'],
    ['with a dot', { 'lease.duration': 1 }, 'Write lease: { duration: … }.'],
    ['of a store', { url: 'redis://127.0.0.1:1' }, 'store'],
    [
      'in a group',
      { reconcile: { afterMs: 1 } },
      '"reconcile.afterMs" is not an option of IdempotencyModule.forRoot(). Did you mean "reconcile.after"?',
    ],
    ['of each operation', { operation: 'pay' }, 'Name each operation itself'],
    ['of a store', { storage: 1 }, 'Did you mean "store"?'],
    ['of a store', { allowInMemoryStorage: true }, 'memoryStore({ allowInMemoryStorage })'],
    ['of the module’s registration', { isGlobal: true }, 'Set it beside "useFactory"'],
  ])('%s is rejected for the module, too: %j', (_, options, remedy) => {
    expect(() => ofModule(options)).toThrow(remedy);
  });

  it('at a call is each group of requests', () => {
    for (const name of ['key', 'caller', 'message', 'http', 'fingerprint', 'enabled']) {
      expect(() => ofCall({ caller: {}, [name]: {} })).toThrow(/is not an option of run\(\)/);
    }
    expect(() => ofCall({ leas: {} })).toThrow('Did you mean "lease"?');
  });
});

describe('an option', () => {
  const bad: [string, unknown][] = [
    ['enabled', 'yes'],
    ['caller.scope', 'tenant'],
    ['caller.scope', {}],
    ['caller.scope', { http: undefined }],
    ['caller.scope.rpc', 'tenant'],
    ['caller.anonymous', 'allow'],
    ['operation', ''],
    ['operation', 7],
    ['key.uniqueFor', 'tenant'],
    ['key', ''],
    ['key', null],
    ['key', ['a']],
    ['key.from', 'Idempotency Key'],
    ['key.from', 'Clé'],
    ['key.from', null],
    ['key.from', {}],
    ['key.from', [{ payload: 'id' }]],
    ['key.from', { payload: 'id', arg: 'id' }],
    ['key.from', { payload: 'id', http: 'X-Key' }],
    ['key.from', { ws: undefined }],
    ['key.from.payload', 'meta..id'],
    ['key.from.payload', 7],
    ['key.from.graphql.arg', ''],
    ['key.from.http', 'Idempotency Key'],
    ['key.from.http', 7],
    ['key.from.rpc', { arg: 'id' }],
    ['key.from.ws', 'X-Key'],
    ['key.from.ws', { graphql: 'X-Key' }],
    ['key.required', 'true'],
    ['key.syntax', /uuid/],
    ['key.maxLength', 0],
    ['key.maxLength', 1_025],
    ['fingerprint', true],
    ['fingerprint', 'body'],
    ['fingerprint', null],
    ['fingerprint', { includes: ['a'] }],
    ['fingerprint.include', 'a'],
    ['fingerprint.exclude', ['']],
    ['fingerprint.headers', ['If Match']],
    ['outcome', 'all'],
    ['outcome.keep', [200]],
    ['outcome.storeBody', 1],
    ['outcome.codec', {}],
    ['outcome.codec', null],
    ['duplicates', 'drop'],
    ['lease', 5],
    ['lease', null],
    ['http.replayHeader', ''],
    ['http.replayHeader', 'Replayed:'],
    ['http.replayHeaders', 'etag'],
    ['http.replayHeaders', ['etag', '']],
    ['http.replayHeaders', ['etag', 'Set-Cookie']],
    ['http.replayHeaders', ['X-B3-TraceId']],
    ['http.neverReplayHeaders', 'x-own'],
    ['http.neverReplayHeaders', ['x own']],
    ['http.problemTypeBase', 'problems'],
    ['http.problemTypeBase', 'https://api.example/problems/'],
    ['http.problemTypeBase', ''],
    ['http.problemTypeBase', null],
    ['message.consumer', ''],
    ['message.onFailure', 'drop'],
    ['message.redeliveryDelay', 600_001],
    ['message.maxPause', 999],
  ];

  it.each(bad)('%s is not %j', (option, value) => {
    expect(() => resolve({}, {}, optionAt(option, value))).toThrow(IdempotencyOptionsError);
    expect(() => resolve({}, {}, optionAt(option, value))).toThrow(`"${option}"`);
  });

  it.each(bad)('%s is not %j, even if the method overrides it', (option, value) => {
    const own = { enabled: true, key: 'X-Key', outcome: () => true, duplicates: 'wait' };
    expect(() => resolve({}, optionAt(option, value), own)).toThrow(`"${option}"`);
  });

  it.each(bad.filter(([option]) => option !== 'operation'))(
    '%s is not %j for the module either',
    (option, value) => {
      expect(() => ofModule(optionAt(option, value))).toThrow(`"${option}"`);
    },
  );

  const good: [string, unknown][] = [
    ['enabled', () => false],
    ['enabled', false],
    ['caller.scope', () => ['tenant', 1]],
    ['caller.anonymous', 'shared'],
    ['key.from', 'X-Request-Key'],
    ['key.from', () => 'k'],
    ['key.syntax', 'strict'],
    ['key.syntax', () => true],
    ['key.maxLength', 1_024],
    ['fingerprint', false],
    ['fingerprint', () => 'content'],
    ['fingerprint', { include: ['a.b'], exclude: ['c'], headers: ['If-Match'] }],
    ['fingerprint', {}],
    ['http.replayHeaders', []],
    ['http.neverReplayHeaders', ['X-Own', 'Set-Cookie']],
    ['http.problemTypeBase', 'https://api.example/problems'],
    ['http.problemTypeBase', 'urn:example:problems'],
    ['message.consumer', 'orders'],
    ['message.onFailure', () => 'requeue'],
  ];

  it.each(good)('%s may be %p', (option, value) => {
    expect(resolve({}, optionAt(option, value))).toMatchObject(optionAt(option, value));
  });
});

it.each([
  ['a promise', 'a Promise', Promise.resolve({ duration: 200 })],
  ['a Map', 'a Map', new Map([['duration', 200]])],
  ['a date', 'a Date', new Date(0)],
])('%s is not a group, whose defaults would silently apply', (_, kind, value) => {
  const message = `must be an object with settings, but it is ${kind}.`;
  expect(() => ofModule({ lease: value })).toThrow(message);
  expect(() => ofCall({ lease: value })).toThrow(message);
  expect(() => resolve({}, { lease: value })).toThrow(message);
});

it('a name that every object inherits is no part of a fingerprint, and a misspelt one is suggested', () => {
  expect(() => ofModule({ fingerprint: { constructor: ['a'] } })).toThrow('"constructor"');
  expect(() => ofModule({ fingerprint: { exlude: ['a'] } })).toThrow('Did you mean "exclude"?');
  expect(() => ofModule({ fingerprint: new Map() })).toThrow('a Map');
});

it('the getters of a method that has an instance of a class as its options count', () => {
  class Send {
    readonly key = () => 'k';
    readonly #operation = 'invoice.send';

    get operation() {
      return this.#operation;
    }

    get lease() {
      return { duration: 200 };
    }
  }
  const { operation, options } = methodRoute('Mailer.send', { store }, undefined, new Send());
  expect(operation).toBe('invoice.send');
  expect(options.lease.duration).toBe(200);
});

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
const dictionaries = { byId: {} };
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
    resolved: {
      from,
      place: undefined,
      required: false,
      syntax: 'uuid',
      maxLength: 10,
      uniqueFor: 'principal',
    },
  },
  caller: {
    module: { scope, anonymous: 'ignore' },
    class: {},
    method: { anonymous: 'shared' },
    resolved: { scope, anonymous: 'shared' },
  },
  outcome: {
    module: {
      ...{
        retention: 5,
        bodyRetention: 4,
        maxBytes: 6,
        codec,
        dictionaries,
        compression: { level: 5 },
      },
      offload: { aboveBytes: 8, getTimeout: '3s' },
    },
    class: keep,
    method: {
      storeBody: false,
      maxBytes: 7,
      compression: { level: 6 },
      encryption: false,
      offload: { aboveBytes: 9 },
    },
    resolved: {
      keep,
      retention: 5,
      bodyRetention: 4,
      storeBody: false,
      maxBytes: 7,
      codec,
      dictionaries: { write: undefined, byId: new Map() },
      compression: { algorithm: 'deflate', thresholdBytes: 1_024, level: 6 },
      encryption: false,
      offload: {
        aboveBytes: 9,
        maxBytes: 1_073_741_824,
        putTimeout: 60_000,
        getTimeout: 3_000,
        delivery: 'stored-first',
      },
    },
  },
  duplicates: {
    module: { timeout: 5, retryAfter: 6 },
    class: 'wait',
    method: { retryAfter: 7 },
    resolved: { mode: 'wait', timeout: 5, retryAfter: 7 },
  },
  lease: {
    module: { duration: 1_000, maxExecution: 2_000 },
    class: { duration: 1_500 },
    method: { onTakeover, recoverOn: 'always' },
    resolved: { duration: 1_500, maxExecution: 2_000, onTakeover, recoverOn: 'always' },
  },
  storeErrors: {
    module: { commandTimeout: 5, saveTimeout: 6 },
    class: { saveTimeout: 7, whenUnavailable: 'execute' },
    method: { whenNotSaved: 'error' },
    resolved: {
      commandTimeout: 5,
      saveTimeout: 7,
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
    module: { consumer: 'orders', redeliveryDelay: 5, maxPause: 6_000 },
    class: { redeliveryDelay: 6 },
    method: { onFailure: 'dead-letter' },
    resolved: {
      consumer: 'orders',
      redeliveryDelay: 6,
      maxPause: 6_000,
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

describe('an option by context', () => {
  const http = () => 'http';
  const rpc = () => 'rpc';
  const ws = () => 'ws';
  const kinds: [OperationKind, unknown][] = [
    ['http', http],
    ['graphql', undefined],
    ['message', rpc],
    ['event', rpc],
    ['socket', ws],
  ];

  it.each(kinds)('is that of its context, where it has an entry: %s', (kind, expected) => {
    const options = { key: { from: { http, rpc, ws } }, caller: { scope: { http, rpc, ws } } };
    const { key, caller } = resolveOptions(kind, { store: memoryStore(), ...options });
    expect(key.from).toBe(expected ?? 'Idempotency-Key');
    expect(caller.scope).toBe(expected);
  });

  it.each(kinds)('is over an outer level only with its own entries: %s', (kind, expected) => {
    const outer = () => 'outer';
    const { key, caller } = resolveOptions(
      kind,
      { store: memoryStore(), key: outer, caller: { scope: outer } },
      handlerLevel('class', { key: { from: { http, rpc } }, caller: { scope: { http, rpc } } }),
      handlerLevel('method', { key: { from: { ws } }, caller: { scope: { ws } } }),
    );
    expect(key.from).toBe(expected ?? outer);
    expect(caller.scope).toBe(expected ?? outer);
  });

  it('gives way to a value for all contexts', () => {
    const { key, caller } = resolveOptions(
      'message',
      { store: memoryStore(), key: { from: { rpc } }, caller: { scope: { rpc } } },
      handlerLevel('method', { key: ws, caller: { scope: ws } }),
    );
    expect([key.from, caller.scope]).toEqual([ws, ws]);
  });

  it.each<OperationKind>(['http', 'message', 'socket'])(
    'of an argument stops the start where there are none: %s',
    (kind) => {
      const given = { store: memoryStore(), key: { from: { arg: 'input.id' } } };
      const toBe = 'is a path of an argument, which only GraphQL has';
      expect(() => resolveOptions(kind, given)).toThrow(IdempotencyOptionsError);
      expect(() => resolveOptions(kind, given)).toThrow(toBe);
      expect(typeof resolveOptions('graphql', given).key.from).toBe('function');
    },
  );
});

it('"outcome.encryption" stops the start without "secrets": the outcomes would lie in clear', () => {
  const module = { store: memoryStore() };
  const level = handlerLevel('method', { outcome: { encryption: true } });
  expect(() => resolveOptions('http', module, level)).toThrow('needs the module option "secrets"');
  const secrets = staticKeys({ current: 'k', keys: { k: Buffer.alloc(32) } });
  expect(resolveOptions('http', { ...module, secrets }, level).outcome.encryption).toBe(true);
});

describe('the option "protectDigests"', () => {
  const module = { store: memoryStore() };
  const keys = { k: Buffer.alloc(32), names: Buffer.alloc(32, 1) };
  const secrets = staticKeys({ current: 'k', keys, digestKeys: ['names'] });

  it('is off until asked for, and takes a number of parts for the tag', () => {
    expect(resolveOptions('http', { ...module, secrets }).protectDigests).toBe(false);
    const resolved = (protectDigests: IdempotencyModuleOptions['protectDigests']) =>
      resolveOptions('http', { ...module, secrets, ...(protectDigests && { protectDigests }) })
        .protectDigests;
    expect(resolved(true)).toEqual({ scopeTagParts: 'all' });
    expect(resolved({ scopeTagParts: 1 })).toEqual({ scopeTagParts: 1 });
    for (const scopeTagParts of [0, 17, 1.5, 'one']) {
      expect(() => resolved({ scopeTagParts } as never)).toThrow(
        '"protectDigests.scopeTagParts" must be \'all\' or an integer from 1 to 16',
      );
    }
  });

  it('stops the start without "secrets"', () => {
    expect(() => resolveOptions('http', { ...module, protectDigests: true })).toThrow(
      'The option "protectDigests" needs the module option "secrets" with digest keys',
    );
  });

  const start = async (options: Partial<IdempotencyModuleOptions>) => {
    const imports = [IdempotencyModule.forRoot({ ...module, ...options })];
    const log = new LoggedLines();
    const application = await Test.createTestingModule({ imports }).setLogger(log).compile();
    await application.init();
    await application.close();
    return log.own.join('\n');
  };

  it('stops the start where "secrets" has no digest keys', async () => {
    const others = staticKeys({ current: 'k', keys });
    await expect(start({ secrets: others, protectDigests: true })).rejects.toThrow(
      'The option "protectDigests" is on, but "secrets" gives no digest keys',
    );
  });

  it('warns where digest keys are given, and it is off', async () => {
    expect(await start({ secrets })).toContain('[digest_keys_unused]');
    expect(await start({ secrets, protectDigests: true })).not.toContain('digest_keys_unused');
  });
});

describe('the option "service"', () => {
  const unused = () => Promise.reject(new Error('unused'));
  const resolve = (service: unknown) =>
    resolveOptions('http', { store: memoryStore(), service } as IdempotencyModuleOptions);

  it.each(['billing', 'billing-api.v2', '7', 's'.repeat(120)])('accepts %j', (service) => {
    expect(resolve(service).service).toBe(service);
  });

  it.each(['', 's'.repeat(121), 'two words', 'tab\t', 'bill\u00efng', 7, null])(
    'stops the start with %j',
    (service) => {
      expect(() => resolve(service)).toThrow(
        /"service".*1 to 120 printable ASCII characters without white space/,
      );
    },
  );

  const redis = redisStore({ url: 'redis://127.0.0.1:1' });
  class OwnStore extends IdempotencyStore {
    override begin = unused;
    override extend = unused;
    override complete = unused;
    override release = unused;
    override inspect = unused;
    override close = () => Promise.resolve();
  }
  const standIn = Object.fromEntries(
    ['open', 'begin', 'extend', 'complete', 'release', 'close'].map((name) => [name, unused]),
  ) as unknown as IdempotencyStore;

  describe.each<[string, Partial<IdempotencyModuleOptions> & { store: IdempotencyStore }]>([
    ['Redis', { store: redis }],
    ['PostgreSQL', { store: postgresStore({ url: 'postgres://127.0.0.1:1/none' }) }],
    ['a wrapper of it', { store: new DelegatingStore(new DelegatingStore(redis)) }],
    ['it behind a breaker', { store: redis, breaker: true }],
    ['a store of the user', { store: new OwnStore() }],
    ['a stand-in', { store: standIn }],
  ])('on %s', (_, given) => {
    it.each<[string, (options: IdempotencyModuleOptions) => DynamicModule]>([
      ['forRoot', (options) => IdempotencyModule.forRoot(options)],
      [
        'forRootAsync',
        (options) => IdempotencyModule.forRootAsync({ useFactory: () => ({ ...options }) }),
      ],
    ])('is required by %s, in every environment', async (_how, moduleOf) => {
      for (const environment of ['production', 'development', 'test', undefined]) {
        const before = process.env.NODE_ENV;
        if (environment === undefined) delete process.env.NODE_ENV;
        else process.env.NODE_ENV = environment;
        try {
          const starting = Test.createTestingModule({ imports: [moduleOf(given)] }).compile();
          const error = await starting.catch((found: unknown) => found);
          expect(error).toBeInstanceOf(IdempotencyOptionsError);
          expect(error).toMatchObject({
            code: 'idempotency_options_invalid',
            message: expect.stringMatching(
              /IdempotencyModule has no "service".*forRoot\(\{ service: 'billing'.*forRootAsync.*new name for every record: each open retry would run again/,
            ),
          });
        } finally {
          if (before === undefined) delete process.env.NODE_ENV;
          else process.env.NODE_ENV = before;
        }
      }
      const imports = [moduleOf({ ...given, service: 'billing' })];
      const named = await Test.createTestingModule({ imports }).compile();
      expect(named.get(IdempotencyEngine).service).toBe('billing');
    });
  });

  it.each<[string, IdempotencyStore]>([
    ['in memory', memoryStore()],
    ['in memory, wrapped', new DelegatingStore(memoryStore())],
  ])('is not required %s', async (_, store) => {
    const imports = [IdempotencyModule.forRoot({ store })];
    const module = await (await Test.createTestingModule({ imports }).compile()).init();
    await module.close();
  });
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
    () => Idempotent({ duration: 1 }),
    // @ts-expect-error -- a field of another group
    () => Idempotent({ lease: { retention: 1 } }),
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

describe('options of a call', () => {
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
      lease: { duration: 1_000, maxExecution: 2_000 },
      duplicates: 'wait',
      outcome: { keep, retention: 5 },
      payload: { amount: Math.random() },
    });
    const first = await run(groups());
    expect(first).toMatchObject({ lease: { duration: 1_000 }, duplicates: { mode: 'wait' } });
    expect(await run(groups())).toBe(first);
    const refund = await run(groups(), 'refund');
    expect(refund).not.toBe(first);
    expect(await run(groups())).toBe(first);
    expect(await run(groups(), 'refund')).toBe(refund);
  });

  it.each<[string, Groups, Groups, object]>([
    [
      'a field differs',
      { lease: { duration: 200 } },
      { lease: { duration: 300 } },
      { lease: { duration: 300 } },
    ],
    [
      'a field is missing',
      { duplicates: { timeout: 5 } },
      { duplicates: {} },
      { duplicates: { timeout: 10_000 } },
    ],
    [
      'a field is added',
      { duplicates: {} },
      { duplicates: { timeout: 5 } },
      { duplicates: { timeout: 5 } },
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
    const lease = { duration: 200 };
    await run({ lease });
    lease.duration = 300;
    expect(await run({ lease })).toMatchObject({ lease: { duration: 300 } });
  });

  it('they are resolved again for a function defined inside of the call', async () => {
    const groups = (): Groups => ({ outcome: () => true });
    expect(await run(groups())).not.toBe(await run(groups()));
  });

  it('invalid ones are not kept', async () => {
    const call = { operation: 'pay', key: 'k', scope: 'alice', lease: { duration: 1 } };
    const service = app.get(IdempotencyService, { strict: false });
    for (let times = 0; times < 2; times += 1) {
      await expect(service.run(call, () => 'done')).rejects.toThrow('"lease.duration"');
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

    get duration(): number {
      return this.#durationMs;
    }
  }

  it('two calls of an operation whose groups are instances of a class each get their own options', async () => {
    expect(await run({ lease: new Lease(200) })).toMatchObject({ lease: { duration: 200 } });
    expect(await run({ lease: new Lease(60_000) })).toMatchObject({
      lease: { duration: 60_000 },
    });
  });

  it('the getters of a call that is an instance of a class count', async () => {
    class SendInvoice {
      readonly operation = 'invoice.send';
      readonly key = randomUUID();
      readonly scope = 'alice';

      get lease(): object {
        return { duration: 200 };
      }
    }
    await app.get(IdempotencyService, { strict: false }).run(new SendInvoice(), () => 'done');
    expect(seen.at(-1)).toMatchObject({ lease: { duration: 200 } });
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
      return Object.create({ retention: 5_000 }) as object;
    }
  }

  it.each([
    ['forRoot', () => IdempotencyModule.forRoot(new Configured())],
    ['forRootAsync', () => IdempotencyModule.forRootAsync({ useFactory: () => new Configured() })],
  ])('%s takes an instance of a class with getters', async (_, imported) => {
    await app.close();
    await start(imported());
    expect(await run({ duplicates: 'wait' })).toMatchObject({
      lease: { duration: 200 },
      outcome: { retention: 5_000 },
      duplicates: { mode: 'wait' },
    });
  });
});
