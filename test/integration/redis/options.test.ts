import { describe, expect, it } from '@jest/globals';
import { RedisIdempotencyStore, redisStore } from 'nestjs-idempotency/redis';
import { IdempotencyOptionsError } from '../../support/internals/core.js';
import { userClient } from './support/fixture.js';

const url = 'redis://127.0.0.1:1';

function messageOf(options: object): string {
  try {
    redisStore(options);
  } catch (error) {
    expect(error).toBeInstanceOf(IdempotencyOptionsError);
    return (error as Error).message;
  }
  throw new Error('redisStore accepted the options');
}

describe('redisStore rejects', () => {
  it('options without a connection', () => {
    expect(messageOf({})).toMatch(/client, url, connection/);
  });

  it('an unknown option', () => {
    expect(messageOf({ url, keyprefix: 'x' })).toMatch(/"keyprefix".*keyPrefix/);
  });

  it.each(['', 'a b', 'a{b}', 'é', 'x'.repeat(65), 7, null])('the key prefix %j', (keyPrefix) => {
    const message = messageOf({ url, keyPrefix });
    expect(message).toMatch(/"keyPrefix" must be 1 to 64/);
    expect(message).toContain(`but it is ${JSON.stringify(keyPrefix)}`);
  });

  it.each(['http://host', 'localhost:6379', 'redis://', 7])('the URL %j', (bad) => {
    expect(messageOf({ url: bad })).toMatch(/"url" must begin with redis:\/\/ or rediss:\/\//);
  });

  it('a URL without showing its password', () => {
    expect(messageOf({ url: 'user:secret@host' })).not.toContain('secret');
    expect(messageOf({ url: 'http://user:secret@host' })).not.toContain('secret');
    expect(messageOf({ client: 'redis://user:secret@host' })).not.toContain('secret');
    expect(messageOf({ connection: 'redis://user:secret@host' })).not.toContain('secret');
  });

  it.each(['url', 'connection', 'onConnectionError'])('%s together with a client', (name) => {
    const client = userClient(url, { lazyConnect: true });
    expect(messageOf({ client, [name]: name })).toContain(name);
  });

  it.each([
    [{ push: 'yes' }, 'redisStore: The option "push" must be true or false, but it is "yes".'],
    [{ waitReplicas: 1 }, 'The options of waitReplicas must be an object, but the type is number.'],
    [{ waitReplicas: { replicas: 1 } }, '"replicas" is not an option of waitReplicas.'],
    [{ waitReplicas: { timeoutMs: 1 } }, '"waitReplicas.count" must be an integer from 1 to 10'],
    [
      { waitReplicas: { count: 1, timeoutMs: 60_001 } },
      '"waitReplicas.timeoutMs" must be an integer from 1 to 60000, but it is 60001.',
    ],
    [{ host: 'x' }, '"host" is not an option of redisStore. It is an option of ioredis: '],
  ])('%j', (options, message) => {
    expect(messageOf({ url, ...options })).toContain(message);
  });

  it('a client of another library', () => {
    expect(messageOf({ client: { evalSha: () => undefined } })).toMatch(
      /client must be .* ioredis/,
    );
  });

  it.each([
    ['x', 'a string'],
    [null, 'null'],
    [['x'], 'an array'],
    [new URL(url), 'a URL'],
  ])('the connection %p, whose members would not be options', (connection, type) => {
    expect(messageOf({ connection })).toContain(
      `"connection" must be an object of options of ioredis, but it is ${type}`,
    );
  });

  it('a listener that is not a function', () => {
    expect(messageOf({ url, onConnectionError: true })).toMatch(
      /must be a function, but it is a boolean/,
    );
  });
});

describe('redisStore accepts', () => {
  it.each([
    { url },
    { url: 'rediss://user:pw@127.0.0.1:1/2' },
    { connection: { sentinels: [{ host: '127.0.0.1', port: 1 }], name: 'primary' } },
    { url, keyPrefix: 'a:b-c_d|~!z'.padEnd(64, 'x') },
    { url, keyPrefix: undefined },
  ])('%j', async (options) => {
    const store = redisStore(options);
    expect(store).toBeInstanceOf(RedisIdempotencyStore);
    await store.close();
  });
});
