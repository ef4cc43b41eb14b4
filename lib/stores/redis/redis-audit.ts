import type { AuditEntry } from '../../core/operator/operator-options.js';
import { isText, of, resolveOptions, type Schema } from '../../core/options/option-schema.js';
import { throwOptionError } from '../../core/options/option-checks.js';
import { nodeClock } from '../../core/util/clock.js';
import { within } from '../../core/util/time.js';

/** What is required of a client: a `Redis` or a `Cluster` of ioredis. */
export interface AuditClient {
  call(command: string, ...args: string[]): Promise<unknown>;
}

/** Options of {@link redisAudit}. */
export interface RedisAuditOptions {
  /** A connection that the application opened, and closes. */
  readonly client: AuditClient;
  /** The key of the stream. @defaultValue 'idempotency:audit' */
  readonly key?: string | undefined;
  /** About how many entries the stream keeps: the oldest go. @defaultValue all, from 1_000 to 1_000_000_000 */
  readonly maxLength?: number | undefined;
}

type Parts = Omit<RedisAuditOptions, 'client'>;

const PARTS: Schema<Parts, Parts & { readonly key: string }> = {
  key: of('a text', isText, { default: 'idempotency:audit' }),
  maxLength: of(
    'an integer from 1,000 to 1,000,000,000',
    (value) => Number.isInteger(value) && Number(value) >= 1_000 && Number(value) <= 1_000_000_000,
    { defaultText: 'all' },
  ),
};

const TIMEOUT_MS = 5_000;

/**
 * The module option `operator.audit`, in a stream of Redis: an entry before each act and one after it, in the field `entry`
 * as JSON. It lasts as long as the server's data: a server that is only a cache keeps no audit. The user needs XADD on the key.
 * @example
 * ```ts
 * IdempotencyModule.forRoot({ operator: { audit: redisAudit({ client }) } })
 * ```
 * @returns a function that rejects unless the server has confirmed the entry within 5 seconds.
 * @throws {@link IdempotencyOptionsError} when an option is invalid.
 */
export function redisAudit(options: RedisAuditOptions): (entry: AuditEntry) => Promise<void> {
  const { key, maxLength } = resolveOptions('redisAudit', PARTS, options, { others: ['client'] });
  const { client } = options;
  if (typeof (client as Partial<AuditClient> | undefined)?.call !== 'function') {
    throwOptionError('client', 'a Redis or a Cluster of ioredis, with call()', typeof client);
  }
  const trimming = maxLength === undefined ? [] : ['MAXLEN', '~', String(maxLength)];
  return async (entry) => {
    const adding = client.call('XADD', key, ...trimming, '*', 'entry', JSON.stringify(entry));
    await within(TIMEOUT_MS, adding, nodeClock);
  };
}
