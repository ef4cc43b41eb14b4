import type { StoreWarning } from '../../../core/store/idempotency-store.js';
import { nodeClock } from '../../../core/util/clock.js';
import {
  hasCode,
  isIdempotencyError,
  StoreConfigurationError,
} from '../../../core/errors/errors.js';
import type { RedisLink } from '../link/redis-link.js';
import { isReplyTo } from '../link/reply-order.js';
import { replyCode, withoutArguments } from '../link/send-failure.js';
import type { Question } from '../scripts/question.js';
import type { ScriptSender } from '../scripts/script-sender.js';
import { isDenied, START_CHECK_TIMEOUT_MS } from './start-checks.js';

/** Those that the store requires, but the steps that the start tries do not need. */
const COMMANDS = ['get', 'pexpireat'] as const;

/** Runs on a key of the store, changes nothing, and publishes as the end of an operation does. */
const SCRIPT = `local function failure(...)
  local reply = redis.pcall(...)
  return type(reply) == 'table' and reply.err or ''
end
-- No stream takes this id: the server checks rights before it.
local journal = KEYS[2] and failure('XADD', KEYS[2], '0-0', 'kind', '') or ''
local found = KEYS[2] and redis.pcall('TYPE', KEYS[2]) or {}
if found.ok and found.ok ~= 'none' and found.ok ~= 'stream' then journal = 'WRONGTYPE ' .. found.ok end
return table.concat({ ARGV[1] .. ' ' .. failure('GET', KEYS[1]), failure('PEXPIREAT', KEYS[1], 1), journal,
  ARGV[2] and failure(ARGV[2], KEYS[1], '') or '' }, '\\n')`;

/** What the user may not do. */
interface Denied {
  /** The server's reason; empty if nothing. */
  readonly script: string;
  /** The commands of the steps among them, as rules of an ACL. */
  readonly commands: readonly string[];
  /** Of the stream of the journal. */
  readonly journal: string;
  readonly publish: string;
}

/**
 * Checks whether the user may run scripts on the keys of the store, and publish on their channels.
 * @param key - that no request can have.
 * @param stream - the key of the journal, if it is on.
 * @throws {@link StoreConfigurationError} if no step can be executed, or no entry be added.
 */
export async function checkRights(
  sender: ScriptSender,
  key: string,
  push: boolean,
  stream?: string,
): Promise<readonly StoreWarning[]> {
  const { link } = sender;
  let denied: Denied;
  try {
    const dueAt = nodeClock.now() + START_CHECK_TIMEOUT_MS;
    denied = (await sender.ask(deniedTo(link, key, push, stream), dueAt)) as Denied;
  } catch (error) {
    if (!isIdempotencyError(error) || hasCode(error, 'idempotency_store_misconfigured'))
      throw error;
    // The steps that the start tries report it.
    return [];
  }
  const pattern = `${link.keyPrefix}${key.slice(0, key.lastIndexOf(':1:'))}:*`;
  if (denied.script !== '') throw new StoreConfigurationError(describe(denied, pattern));
  if (stream !== undefined && isUnusable(denied.journal)) {
    throw new StoreConfigurationError(withoutJournal(denied.journal, link.keyPrefix + stream));
  }
  return denied.publish === '' ? [] : [withoutPush(denied.publish, pattern)];
}

/** The reply is what is {@link Denied}. */
function deniedTo(
  link: RedisLink,
  key: string,
  push: boolean,
  stream: string | undefined,
): Question {
  return {
    send: (asked) => {
      const args = [asked.newNonce(), ...(push ? [link.publishCommand] : [])];
      const [nonce = ''] = args;
      link.eval(SCRIPT, stream === undefined ? [key] : [key, stream], args, {
        isOwn: (reply) => isReplyTo(nonce, reply),
        onReply: (reply, order) => {
          const isOwn = isReplyTo(nonce, reply);
          const failures = String(reply).slice(nonce.length + 1);
          asked.onReply(isOwn ? readFailures(failures.split('\n')) : reply, order);
        },
        onError: (error, order) => {
          if (order === undefined || !isDenied(error)) asked.onError(error, order);
          else asked.onReply({ ...NOTHING, script: reasonOf(error.message) }, order);
        },
      });
    },
    isOwn: (reply) => typeof reply === 'object' && reply !== null && 'script' in reply,
  };
}

const NOTHING: Denied = { script: '', commands: [], journal: '', publish: '' };

/** @param failures - of the commands in their order, then of the journal and of the notification. */
function readFailures(failures: readonly string[]): Denied {
  const denied = COMMANDS.filter((_command, index) => isForbidden(failures[index] ?? ''));
  return {
    script: failures.slice(0, COMMANDS.length).find(isForbidden) ?? '',
    commands: denied.map((command) => `+${command}`),
    journal: failures[COMMANDS.length] ?? '',
    publish: failures.at(-1) ?? '',
  };
}

/** Whether the user may not run the command of a script, or the server does not have it. */
function isForbidden(failure: string): boolean {
  return replyCode(failure) === 'NOPERM' || /unknown redis command/i.test(failure);
}

function isUnusable(failure: string): boolean {
  return isForbidden(failure) || replyCode(failure) === 'WRONGTYPE';
}

function withoutJournal(reason: string, stream: string): string {
  return replyCode(reason) === 'WRONGTYPE'
    ? `The key ${stream} of the journal holds something else than a stream. Delete or rename it, set keyPrefix to another one, or leave out the option "journal".`
    : `The user may not add entries to the journal (${reasonOf(reason)}). Grant it: ACL SETUSER … +xadd ~${stream}*, or leave out the option "journal".`;
}

function reasonOf(message: string): string {
  return withoutArguments(message).replace(/\.$/, '');
}

function describe({ script: reason, commands }: Denied, pattern: string): string {
  if (commands.length > 0) {
    return `The user may not run commands without which the store cannot store or replay outcomes (${reasonOf(reason)}). Grant them: ACL SETUSER … ${commands.join(' ')}. If the server has none, use another store.`;
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
    message: `The user may not publish on the channels of the store (${reasonOf(reason)}): duplicates that wait for the end of an operation poll. Grant them: ACL SETUSER … &${pattern} +publish +subscribe +unsubscribe (on a cluster +spublish +ssubscribe +sunsubscribe), or set push: false.`,
  };
}
