import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { checkInteger, checkNames, within } from '../../core/util/option-checks.js';
import { checkedKeyPrefix } from './key-prefix.js';

const OWN_CONNECTION = ['url', 'connection', 'onConnectionError'];
const ALL = ['client', ...OWN_CONNECTION, 'keyPrefix', 'push', 'waitReplicas'];

const REMEDIES = new Map(
  ['host', 'port', 'username', 'password', 'db', 'tls', 'sentinels'].map((name) => [
    name,
    'It is one of ioredis: redisStore({ connection: { … } }).',
  ]),
);

/** @throws {@link IdempotencyOptionsError} naming the option, what it may be and what it is. */
export function checkRedisStoreOptions(options: Readonly<Record<string, unknown>>): void {
  within('redisStore', 'redisStore', () => {
    check(options);
  });
}

function check(options: Readonly<Record<string, unknown>>): void {
  const given = Object.keys(options).filter((name) => options[name] !== undefined);
  checkNames('redisStore', options, new Set(ALL), REMEDIES);
  checkedKeyPrefix(options.keyPrefix);
  const { push = true } = options;
  if (typeof push !== 'boolean') fail(`push must be true or false, but it is a ${typeof push}.`);
  if (options.waitReplicas !== undefined) checkWaitReplicas(options.waitReplicas);
  if (options.client !== undefined) {
    const besides = given.find((name) => OWN_CONNECTION.includes(name));
    if (besides !== undefined) fail(`client has its own connection: leave out ${besides}.`);
    return;
  }
  const { url, connection, onConnectionError } = options;
  if (url === undefined && connection === undefined)
    fail('one of client, url, connection is needed.');
  if (url !== undefined) checkUrl(url);
  if (connection !== undefined && (typeof connection !== 'object' || connection === null)) {
    fail(`connection must be an object of ioredis options, but it is a ${typeof connection}.`);
  }
  if (onConnectionError !== undefined && typeof onConnectionError !== 'function') {
    fail(`onConnectionError must be a function, but it is a ${typeof onConnectionError}.`);
  }
}

function checkWaitReplicas(value: unknown): void {
  checkNames('waitReplicas', value, new Set(['count', 'timeoutMs']));
  const { count, timeoutMs } = value as { count?: unknown; timeoutMs?: unknown };
  checkInteger('waitReplicas.count', count, 1, 10);
  checkInteger('waitReplicas.timeoutMs', timeoutMs, 1, 60_000);
}

function checkUrl(url: unknown): void {
  if (typeof url === 'string' && /^rediss?:\/\/./.test(url)) return;
  // The rest may hold a password.
  const scheme = typeof url === 'string' ? /^[a-z+.-]*:/i.exec(url)?.[0] : undefined;
  const found = scheme === undefined ? `a ${typeof url} without a scheme` : JSON.stringify(scheme);
  fail(`url must begin with redis:// or rediss://; it is ${found}.`);
}

function fail(message: string): never {
  throw new IdempotencyOptionsError(`redisStore: ${message}`);
}
