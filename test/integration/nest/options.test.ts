import { describe, expect, it } from '@jest/globals';
import { IdempotencyOptionsError, keepResponses, keepSuccesses } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { JSON_CODEC } from '../../support/internals/codecs/json.js';
import {
  callLevel,
  handlerLevel,
  resolveModuleOptions,
  resolveOptions,
  type OperationKind,
} from '../../support/internals/nest/options.js';
import { methodRoute } from '../../support/internals/nest/registry.js';
import { optionAt } from '../../support/nest/option-at.js';

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
        retentionMs: 86_400_000,
        storeBody: true,
        maxBytes: 1_048_576,
        codec: JSON_CODEC,
      },
      duplicates: { mode: 'reject', timeoutMs: 10_000, retryAfterMs: 1_000 },
      lease: {
        durationMs: 10_000,
        maxExecutionMs: 300_000,
        onTakeover: 'run',
        recoverOn: 'takeover',
      },
      storeErrors: {
        whenUnavailable: 'reject',
        whenNotSaved: 'respond',
        commandTimeoutMs: 500,
        saveTimeoutMs: 1_000,
      },
      transaction: false,
      message: { onFailure: 'requeue', redeliveryDelayMs: 1_000, maxPauseMs: 600_000 },
      http: {
        fastPath: true,
        replayHeader: 'Idempotent-Replayed',
        neverReplayHeaders: [],
        problemTypeBase: expect.stringMatching(/^https:.*\/problems$/),
      },
      breaker: false,
      reconcile: false,
      limits: { maxWaiters: 1_000, shutdownTimeoutMs: 10_000 },
    });
    expect(ofModule({ breaker: true, reconcile: true })).toMatchObject({
      breaker: {
        errorThresholdPercentage: 50,
        volumeThreshold: 10,
        windowMs: 2_000,
        probeIntervalMs: 1_000,
      },
      reconcile: { intervalMs: 60_000, batchSize: 100, afterMs: 300_000 },
    });
  });

  it('that are undefined count as not given on every level, alone and in groups', () => {
    const options = resolve(
      { lease: { durationMs: 2_000 }, caller: { scope: undefined }, key: undefined },
      { lease: { durationMs: undefined }, key: { syntax: 'uuid' } },
      { lease: undefined, key: { syntax: undefined }, operation: undefined },
    );
    expect(options.lease.durationMs).toBe(2_000);
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
      lease: { durationMs: 2_000 },
      http: { replayHeaders: ['etag'] },
      fingerprint: { include: ['a'] },
    };
    const options = resolve({}, given);
    given.lease.durationMs = 3_000;
    given.http.replayHeaders.push('link');
    given.fingerprint.include.push('b');
    expect(options).toMatchObject({
      lease: { durationMs: 2_000 },
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
      { key: { maxLength: 9 }, duplicates: { timeoutMs: 9 }, outcome: { maxBytes: 9 } },
      shorthand,
    );
    expect([key.maxLength, duplicates.timeoutMs, outcome.maxBytes]).toEqual([9, 9, 9]);
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
      '"lease.duratonMs" is not an option of @Idempotent(). Did you mean "lease.durationMs"?',
    ],
    [
      'of a group, outside of it',
      { durationMs: 1 },
      '"durationMs" is not an option of @Idempotent(). Did you mean "lease.durationMs"?',
    ],
    [
      'of another group',
      { lease: { retentionMs: 1 } },
      '"lease.retentionMs" is not an option of @Idempotent(). Did you mean "outcome.retentionMs"?',
    ],
    ['of another package', { ttl: 1 }, 'Did you mean "outcome.retentionMs"?'],
    ['of another package', { lockTimeout: 1 }, 'Did you mean "lease.durationMs"?'],
    ['of another package', { headerName: 'X' }, 'Did you mean "key"?'],
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
    [
      'in a group',
      { reconcile: { after: 1 } },
      '"reconcile.after" is not an option of IdempotencyModule.forRoot(). Did you mean "reconcile.afterMs"?',
    ],
    ['of each operation', { operation: 'pay' }, 'Name each operation itself'],
    ['of a store', { storage: 1 }, 'Did you mean "store"?'],
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
    ['message.redeliveryDelayMs', 600_001],
    ['message.maxPauseMs', 999],
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
  ['a promise', 'a Promise', Promise.resolve({ durationMs: 200 })],
  ['a Map', 'a Map', new Map([['durationMs', 200]])],
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
      return { durationMs: 200 };
    }
  }
  const { operation, options } = methodRoute('Mailer.send', { store }, undefined, new Send());
  expect(operation).toBe('invoice.send');
  expect(options.lease.durationMs).toBe(200);
});
