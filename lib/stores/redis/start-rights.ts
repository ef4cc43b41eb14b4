import { types } from 'node:util';
import type { StoreWarning } from '../../core/store/idempotency-store.js';
import { hasCode, isIdempotencyError, StoreConfigurationError } from '../../core/util/errors.js';
import { newNonce } from '../../core/util/nonce.js';
import type { BinaryRedisClient } from './connection/client-types.js';
import type { ConnectionState } from './connection/connection-state.js';
import { isReplyTo } from './scripts/replies.js';
import type { ReplyOrder } from './scripts/reply-order.js';
import { sendUntilDeadline } from './scripts/send-until-deadline.js';
import { START_CHECK_TIMEOUT_MS } from './start-checks.js';
import type { PublishCommand } from './subscriptions.js';

/** Runs on a key of the store, changes nothing, and publishes as the end of an operation does. */
const SCRIPT = `local sent = ARGV[2] and redis.pcall(ARGV[2], KEYS[1], '')
local reason = type(sent) == 'table' and sent.err or ''
return table.concat({ ARGV[1], reason }, ' ')`;

/** What the user may not do. */
interface Denied {
  /** The server's reason; empty if nothing. */
  readonly script: string;
  readonly publish: string;
}

/**
 * Checks whether the user may run scripts on the keys of the store, and publish on their channels.
 * @param key - that no request can have.
 * @param publish - undefined without notifications.
 * @throws {@link StoreConfigurationError} if no step can be executed.
 */
export async function checkRights(
  client: BinaryRedisClient,
  watch: ConnectionState,
  order: ReplyOrder,
  key: string,
  publish: PublishCommand | undefined,
): Promise<readonly StoreWarning[]> {
  let denied: Denied;
  try {
    denied = await sendUntilDeadline(
      watch,
      START_CHECK_TIMEOUT_MS,
      () => ({ send: () => deniedTo(client, key, publish), isOwn: isDenied, order }),
      (reply) => reply,
    );
  } catch (error) {
    if (!isIdempotencyError(error) || hasCode(error, 'idempotency_store_misconfigured'))
      throw error;
    // The steps that the start tries report it.
    return [];
  }
  const pattern = `${client.options?.keyPrefix ?? ''}${key.slice(0, key.lastIndexOf(':1:'))}:*`;
  if (denied.script !== '') throw new StoreConfigurationError(describe(denied.script, pattern));
  return denied.publish === '' ? [] : [withoutPush(denied.publish, pattern)];
}

async function deniedTo(
  client: BinaryRedisClient,
  key: string,
  publish: PublishCommand | undefined,
): Promise<unknown> {
  const nonce = newNonce();
  try {
    const reply = await client.evalBuffer(SCRIPT, 1, key, nonce, ...(publish ? [publish] : []));
    if (!isReplyTo(nonce, reply)) return reply;
    return { script: '', publish: String(reply).slice(nonce.length + 1) };
  } catch (error) {
    if (types.isNativeError(error) && /^(NOPERM|ERR unknown command)/.test(error.message)) {
      return { script: withoutArguments(error.message), publish: '' };
    }
    throw error;
  }
}

function isDenied(reply: unknown): reply is Denied {
  return typeof reply === 'object' && reply !== null && 'script' in reply;
}

/** Of an unknown command, servers repeat the arguments. */
function withoutArguments(message: string): string {
  return message.replace(/, with args beginning with.*/s, '').replace(/\.$/, '');
}

function describe(reason: string, pattern: string): string {
  return /\bkeys?\b/.test(reason)
    ? `The user may not read and write the keys of the store (${reason}). Grant them: ACL SETUSER … ~${pattern}, or set keyPrefix to one that the user has.`
    : `The user may not run scripts, of which each step of the store is one (${reason}). Grant them: ACL SETUSER … +eval +evalsha. If the server has none, use another store.`;
}

function withoutPush(reason: string, pattern: string): StoreWarning {
  return {
    code: 'redis_no_push',
    message: `The user may not publish on the channels of the store (${withoutArguments(reason)}): duplicates that wait for the end of an operation poll. Grant them: ACL SETUSER … &${pattern} +publish +subscribe +unsubscribe (on a cluster +spublish +ssubscribe +sunsubscribe), or set push: false.`,
  };
}
