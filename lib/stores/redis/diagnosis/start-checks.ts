import { types } from 'node:util';
import type { StoreWarning } from '../../../core/store/idempotency-store.js';
import { nodeClock } from '../../../core/util/clock.js';
import {
  hasCode,
  IdempotencyOptionsError,
  isIdempotencyError,
  StoreConfigurationError,
} from '../../../core/errors/errors.js';
import type { RedisLink } from '../link/redis-link.js';
import { isQueued } from '../link/reply-order.js';
import type { Question } from '../scripts/question.js';
import type { ScriptSender } from '../scripts/script-sender.js';

/** The longest time that the start waits for an unreachable server. */
export const START_CHECK_TIMEOUT_MS = 2_000;

/** The first version with `SET … PXAT`. */
const OLDEST_VERSION = [6, 2] as const;

/** The first version with script flags. Valkey has the one that clients of Redis expect of it. */
const FLAGS_VERSION = [7, 0] as const;

type Version = readonly [major: number, minor: number];

export interface CheckedServer {
  readonly warnings: readonly StoreWarning[];
  /** False if unknown. */
  readonly hasScriptFlags: boolean;
}

/**
 * Checks the server's configuration; on a cluster, that of one primary.
 * @throws {@link StoreConfigurationError} the server is too old.
 * @throws {@link IdempotencyOptionsError} the server belongs to a cluster, and the journal is on.
 */
export async function checkServer(
  sender: ScriptSender,
  requiredReplicas = 0,
  hasJournal = false,
): Promise<CheckedServer> {
  let info: string | undefined;
  try {
    const dueAt = nodeClock.now() + START_CHECK_TIMEOUT_MS;
    info = (await sender.ask(infoOf(sender.link), dueAt)) as string | undefined;
  } catch (error) {
    if (!isIdempotencyError(error) || hasCode(error, 'idempotency_store_misconfigured'))
      throw error;
    return unknown(
      hasCode(error, 'idempotency_store_reply_mismatched')
        ? { code: NOT_CHECKED.code, message: error.message }
        : {
            code: 'redis_unreachable',
            message: `Cannot reach Redis. ${error.message}`,
            isOutage: true,
          },
    );
  }
  if (info === undefined) return unknown(NOT_CHECKED);
  const fields = infoFields(info);
  if (hasJournal && fields.get('cluster_enabled') === '1') throw journalOnCluster();
  return evaluateInfo(fields, requiredReplicas);
}

const NOT_CHECKED: StoreWarning = {
  code: 'redis_not_checked',
  message:
    'The user may not run INFO: the configuration of Redis was not checked. Make sure that maxmemory-policy is noeviction.',
};

function unknown(warning: StoreWarning): CheckedServer {
  return { warnings: [warning], hasScriptFlags: false };
}

/** The reply is undefined if the user may not run INFO. */
function infoOf(link: RedisLink): Question {
  return {
    send: (asked) => {
      link.info({
        isOwn: isInfo,
        onReply: (reply, order) => asked.onReply(reply, order),
        onError: (error, order) => {
          // Managed servers may reject it.
          if (order !== undefined && isDenied(error)) asked.onReply(undefined, order);
          else asked.onError(error, order);
        },
      });
    },
    isOwn: (reply) => isInfo(reply) && !isQueued(reply),
  };
}

/** Whether the user may not run a command, or the server does not have it. */
export function isDenied(error: unknown): error is Error {
  return types.isNativeError(error) && /^(NOPERM|ERR unknown command)/.test(error.message);
}

/** Checks the type only: the reply has no nonce. */
function isInfo(reply: unknown): boolean {
  return reply === undefined || typeof reply === 'string';
}

/** The fields of a reply to INFO. */
export function infoFields(info: string): ReadonlyMap<string, string> {
  return new Map(
    info.split('\r\n').flatMap((line) => {
      const colon = line.indexOf(':');
      return colon > 0 ? [[line.slice(0, colon), line.slice(colon + 1)] as const] : [];
    }),
  );
}

/**
 * What INFO does not contain counts as correct.
 * @throws {@link StoreConfigurationError} the server is too old.
 */
export function evaluateInfo(
  info: ReadonlyMap<string, string>,
  requiredReplicas: number,
): CheckedServer {
  const version = info.get('redis_version');
  if (version !== undefined && isOlder(version, OLDEST_VERSION)) {
    throw new StoreConfigurationError(
      `Redis ${version} is too old: the store requires ${OLDEST_VERSION.join('.')} or later.`,
    );
  }
  const warnings: StoreWarning[] = [];
  const policy = info.get('maxmemory_policy') ?? 'noeviction';
  if (policy !== 'noeviction') {
    warnings.push({
      code: 'redis_may_evict',
      message: `maxmemory-policy is ${policy}. When memory runs short, Redis evicts stored outcomes, and their operations run again. Set it to noeviction.`,
    });
  }
  if (info.get('aof_enabled') === '0') {
    warnings.push({
      code: 'redis_not_durable',
      message:
        'appendonly is off. A restart of Redis loses the outcomes stored since its last snapshot, and their operations run again. Set it to yes.',
    });
  }
  if (info.get('role') === 'slave') {
    warnings.push({
      code: 'redis_is_replica',
      message: 'The connection leads to a replica, which rejects writes. Connect to the primary.',
      isOutage: true,
    });
  }
  const replicas = Number(info.get('connected_slaves') ?? requiredReplicas);
  if (replicas < requiredReplicas) {
    warnings.push({
      code: 'redis_too_few_replicas',
      message: `waitReplicas requires ${String(requiredReplicas)} replicas, but the primary has ${String(replicas)}. Until it has more, every idempotent operation is rejected.`,
      isOutage: true,
    });
  }
  return {
    warnings,
    hasScriptFlags: version !== undefined && !isOlder(version, FLAGS_VERSION),
  };
}

function isOlder(version: string, [otherMajor, otherMinor]: Version): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major < otherMajor || (major === otherMajor && minor < otherMinor);
}

export function journalOnCluster(): IdempotencyOptionsError {
  return new IdempotencyOptionsError(
    'The option "journal" of a store in Redis requires a single server or Sentinel. On a cluster, no script reaches the stream and a record in another slot. Keep the records in PostgreSQL (postgresStore, which has the option as well), or note the events yourself: IdempotencyEvents.subscribe().',
  );
}
