import { describe, expect, it } from '@jest/globals';
import { IdempotencyOptionsError, type IdempotencyOptions } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { ENGINE_DEFAULTS, PROTOCOL_DEFAULTS } from '../../support/internals/core/operation.js';
import { resolveEngineOptions, resolveOptions } from '../../support/internals/nest/options.js';
import { JSON_CODEC } from '../../support/internals/codecs/json.js';
import { MESSAGE_DEFAULTS } from '../../support/internals/transports/message.js';
import { HTTP_DEFAULTS } from '../../support/internals/transports/http.js';

const store = memoryStore();
const resolve = (module: object, ...levels: object[]) =>
  resolveOptions({ store, ...module }, ...(levels as IdempotencyOptions[]));

describe('options', () => {
  it('that are not given take their defaults', () => {
    expect(resolve({})).toEqual({
      protocol: PROTOCOL_DEFAULTS,
      http: HTTP_DEFAULTS,
      message: MESSAGE_DEFAULTS,
      codec: JSON_CODEC,
    });
    expect(resolveEngineOptions({ store })).toEqual(ENGINE_DEFAULTS);
  });

  it('of the method override those of the class, which override the module’s', () => {
    const { protocol, http } = resolve(
      { leaseMs: 1_000, retryAfterMs: 1_000, keyScope: 'principal', maxKeyLength: 10 },
      { leaseMs: 2_000, retryAfterMs: 2_000, required: false },
      { leaseMs: 3_000, maxKeyLength: 30 },
    );
    expect(protocol).toMatchObject({ leaseMs: 3_000, retryAfterMs: 2_000 });
    expect(http).toMatchObject({ keyScope: 'principal', required: false, maxKeyLength: 30 });
  });

  it('that are undefined count as not given on every level', () => {
    const { protocol, http } = resolve(
      { leaseMs: 2_000, scope: undefined, keySyntax: undefined },
      { leaseMs: undefined, keySyntax: 'uuid' },
      { keySyntax: undefined, operation: undefined },
    );
    expect(protocol.lease.durationMs).toBe(2_000);
    expect(http.key.syntax).toBe('uuid');
    expect(Object.keys(http)).toEqual(expect.not.arrayContaining(['scope', 'operation']));
    expect(resolveEngineOptions({ store, maxWaiters: undefined } as never)).toEqual(
      ENGINE_DEFAULTS,
    );
  });

  it('may be false or 0 without falling back to the default', () => {
    const { http } = resolve({ required: true }, { required: false, maxStoredBytes: 0 });
    expect(http).toMatchObject({ required: false, maxStoredBytes: 0 });
    expect(resolveEngineOptions({ store, limits: { maxWaiters: 0 } }).limits.maxWaiters).toBe(0);
  });

  it('are a frozen copy', () => {
    const given = { leaseMs: 2_000 };
    const { protocol, http } = resolve({}, given);
    given.leaseMs = 3_000;
    expect(protocol.lease.durationMs).toBe(2_000);
    expect([protocol, http, resolveEngineOptions({ store })].every(Object.isFrozen)).toBe(true);
  });

  it('with an unknown name are rejected with a list of the valid names', () => {
    expect(() => resolve({}, { colour: 1 })).toThrow(IdempotencyOptionsError);
    expect(() => resolve({}, { colour: 1 })).toThrow(
      /"colour" is not an option of @Idempotent\(\)\. Valid options: .*retentionMs/,
    );
    expect(() => resolveEngineOptions({ store, colour: 1 } as never)).toThrow(
      /"colour" is not an option of IdempotencyModule\.forRoot\(\)\. Valid options: .*shutdownTimeoutMs/,
    );
  });
});

describe('an option of HTTP', () => {
  const bad: [string, unknown][] = [
    ['enabled', 'yes'],
    ['scope', 'tenant'],
    ['anonymous', 'allow'],
    ['operation', ''],
    ['operation', 7],
    ['keyScope', 'tenant'],
    ['key', ''],
    ['key', 'Idempotency Key'],
    ['key', 'Clé'],
    ['key', null],
    ['required', 'true'],
    ['keySyntax', /uuid/],
    ['maxKeyLength', 0],
    ['maxKeyLength', 1_025],
    ['fingerprint', true],
    ['fingerprint', 'body'],
    ['fingerprint', null],
    ['fingerprint', { includes: ['a'] }],
    ['fingerprint.include', { include: 'a' }],
    ['fingerprint.exclude', { exclude: [''] }],
    ['fingerprint.headers', { headers: ['If Match'] }],
    ['keep', [200]],
    ['storeBody', 1],
    ['maxStoredBytes', -1],
    ['maxStoredBytes', 67_108_865],
    ['replayHeader', ''],
    ['replayHeader', 'Replayed:'],
    ['replayHeaders', 'etag'],
    ['replayHeaders', ['etag', '']],
    ['problemTypeBase', 'problems'],
    ['problemTypeBase', 'https://api.example/problems/'],
    ['problemTypeBase', ''],
    ['problemTypeBase', null],
  ];

  it.each(bad)('%s is not %j', (option, value) => {
    const [name = ''] = option.split('.');
    expect(() => resolve({}, { [name]: value })).toThrow(IdempotencyOptionsError);
    expect(() => resolve({}, { [name]: value })).toThrow(`"${option}"`);
  });

  it.each(bad.filter(([option]) => option !== 'operation'))(
    '%s is not %j for the module either',
    (option, value) => {
      const [name = ''] = option.split('.');
      expect(() => resolve({ [name]: value })).toThrow(`"${option}"`);
    },
  );

  const good: [string, unknown][] = [
    ['enabled', () => false],
    ['enabled', false],
    ['scope', () => ['tenant', 1]],
    ['anonymous', 'shared'],
    ['key', 'X-Request-Key'],
    ['key', () => 'k'],
    ['keySyntax', 'strict'],
    ['keySyntax', () => true],
    ['maxKeyLength', 1_024],
    ['fingerprint', false],
    ['fingerprint', () => 'content'],
    ['fingerprint', { include: ['a.b'], exclude: ['c'], headers: ['If-Match'] }],
    ['fingerprint', {}],
    ['maxStoredBytes', 67_108_864],
    ['replayHeaders', []],
    ['problemTypeBase', 'https://api.example/problems'],
    ['problemTypeBase', 'urn:example:problems'],
  ];

  it.each(good)('%s may be %p', (option, value) => {
    expect(resolve({}, { [option]: value }).http).toMatchObject({ [option]: value });
  });
});
