import { types } from 'node:util';
import type { StoreWarning } from '../../core/store/idempotency-store.js';
import { hasCode, isIdempotencyError, StoreConfigurationError } from '../../core/util/errors.js';
import { newNonce } from '../../core/util/nonce.js';
import type { BinaryRedisClient } from './ioredis/client-types.js';
import type { ConnectionState } from './ioredis/connection-state.js';
import { replyCode } from './ioredis/error-classification.js';
import { isReplyTo } from './scripts/replies.js';
import type { ReplyOrder } from './scripts/reply-order.js';
import { sendUntilDeadline } from './scripts/send-until-deadline.js';
import { START_CHECK_TIMEOUT_MS } from './start-checks.js';
import type { PublishCommand } from './subscriptions.js';

/** Those that the store requires, but the steps that the start tries do not need. */
const COMMANDS = ['get', 'pexpireat'] as const;

/** Runs on a key of the store, changes nothing, and publishes as the end of an operation does. */
const SCRIPT = `local function failure(...)
  local reply = redis.pcall(...)
  return type(reply) == 'table' and reply.err or ''
end
return table.concat({ ARGV[1] .. ' ' .. failure('GET', KEYS[1]), failure('PEXPIREAT', KEYS[1], 1),
  ARGV[2] and failure(ARGV[2], KEYS[1], '') or '' }, '\\n')`;

/** What the user may not do. */
interface Denied {
  /** The server's reason; empty if nothing. */
  readonly script: string;
  /** The commands of the steps among them, as rules of an ACL. */
  readonly commands: readonly string[];
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
  if (denied.script !== '') throw new StoreConfigurationError(describe(denied, pattern));
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
    const failures = String(reply).slice(nonce.length + 1);
    return readFailures(failures.split('\n'));
  } catch (error) {
    if (types.isNativeError(error) && /^(NOPERM|ERR unknown command)/.test(error.message)) {
      return { script: withoutArguments(error.message), commands: [], publish: '' };
    }
    throw error;
  }
}

/** @param failures - of the commands in their order, then of the notification. */
function readFailures(failures: readonly string[]): Denied {
  const denied = COMMANDS.filter((_command, index) => isForbidden(failures[index] ?? ''));
  return {
    script: failures.slice(0, -1).find(isForbidden) ?? '',
    commands: denied.map((command) => `+${command}`),
    publish: failures.at(-1) ?? '',
  };
}

/** Whether the user may not run the command of a script, or the server does not have it. */
function isForbidden(failure: string): boolean {
  return replyCode(failure) === 'NOPERM' || /unknown redis command/i.test(failure);
}

function isDenied(reply: unknown): reply is Denied {
  return typeof reply === 'object' && reply !== null && 'script' in reply;
}

/** Of an unknown command, servers repeat the arguments. */
function withoutArguments(message: string): string {
  return message.replace(/, with args beginning with.*/s, '').replace(/\.$/, '');
}

function describe({ script: reason, commands }: Denied, pattern: string): string {
  if (commands.length > 0) {
    return `The user may not run commands without which the store cannot store or replay outcomes (${withoutArguments(reason)}). Grant them: ACL SETUSER … ${commands.join(' ')}. If the server has none, use another store.`;
  }
  if (/unknown command/i.test(reason)) {
    return `The server runs no scripts, of which each step of the store is one (${reason}). Is it a Sentinel? Then set "sentinels" and "name" of "connection" in place of "url". Otherwise use another store.`;
  }
  return /\bkeys?\b/.test(reason)
    ? `The user may not read and write the keys of the store (${reason}). Grant them: ACL SETUSER … ~${pattern}, or set keyPrefix to one that the user has.`
    : `The user may not run scripts, of which each step of the store is one (${reason}). Grant them: ACL SETUSER … +eval +evalsha.`;
}

function withoutPush(reason: string, pattern: string): StoreWarning {
  return {
    code: 'redis_no_push',
    message: `The user may not publish on the channels of the store (${withoutArguments(reason)}): duplicates that wait for the end of an operation poll. Grant them: ACL SETUSER … &${pattern} +publish +subscribe +unsubscribe (on a cluster +spublish +ssubscribe +sunsubscribe), or set push: false.`,
  };
}
