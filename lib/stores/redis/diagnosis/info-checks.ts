import { isIdempotencyError } from '../../../core/errors/errors.js';
import { evaluateInfo } from './start-checks.js';
import {
  error,
  findingsOf,
  ok,
  orOk,
  warning,
  type Finding,
  type Place,
} from '../../../core/store/diagnosis/finding.js';

type Info = ReadonlyMap<string, string>;

/** The warnings of the store's start: what they are about. */
export const REDIS_WARNINGS: Readonly<Record<string, Place>> = {
  redis_unreachable: ['connection', 'error'],
  redis_not_checked: ['configuration', 'warning'],
  redis_may_evict: ['eviction', 'warning'],
  redis_not_durable: ['persistence', 'warning'],
  redis_is_replica: ['role', 'error'],
  redis_too_few_replicas: ['role', 'error'],
};

const FULL = 0.8;

/** Many large outcomes at once need more than this of Redis' buffers. */
const LEAST_CLIENT_MEMORY = 64 * 2 ** 20;

/**
 * What INFO contains about one server.
 * @param requiredReplicas - of `waitReplicas`.
 * @param appendfsync - unknown if the user may not read it.
 * @param maxmemoryClients - likewise, or before Redis 7.
 */
export function checkRedisInfo(
  info: Info,
  requiredReplicas: number,
  appendfsync: string | undefined,
  maxmemoryClients?: string,
): Finding[] {
  let found: Finding[];
  try {
    found = findingsOf(evaluateInfo(info, requiredReplicas).warnings, REDIS_WARNINGS);
  } catch (failure) {
    if (!isIdempotencyError(failure)) throw failure;
    return [error('version', failure.message)];
  }
  const others = found.filter(({ check }) => !['role', 'eviction', 'persistence'].includes(check));
  return [
    ok('version', `${versionOf(info)}.`),
    ...orOk([...found, ...replicasOf(info)], 'role', describeRole(info)),
    ...orOk(found, 'eviction', `maxmemory-policy is ${field(info, 'maxmemory_policy')}.`),
    memoryOf(info),
    ...clientMemoryOf(info, maxmemoryClients),
    ...orOk(
      [...found, ...failedWrites(info), ...flushOf(appendfsync)],
      'persistence',
      durability(appendfsync),
    ),
    ...others,
  ];
}

/** @param info - of CLUSTER INFO. */
export function checkClusterInfo(info: Info): Finding {
  const state = field(info, 'cluster_state');
  const found = `cluster_state is ${state}, ${field(info, 'cluster_slots_assigned')} of 16384 slots are assigned.`;
  return state === 'ok'
    ? ok('cluster', found)
    : error(
        'cluster',
        `${found} Operations whose record is in a slot without a server are rejected. Assign the slots: redis-cli --cluster fix.`,
      );
}

function field(info: Info, name: string): string {
  return info.get(name) ?? 'unknown';
}

function versionOf(info: Info): string {
  const valkey = info.get('valkey_version');
  const redis = `Redis ${field(info, 'redis_version')}`;
  return valkey === undefined ? redis : `Valkey ${valkey}, compatible with ${redis}`;
}

function describeRole(info: Info): string {
  const replicas = Number(info.get('connected_slaves') ?? 0);
  return `A primary with ${replicas} ${replicas === 1 ? 'replica' : 'replicas'}.`;
}

function replicasOf(info: Info): Finding[] {
  const late = [...info].filter(
    ([name, value]) => /^slave\d+$/.test(name) && !value.includes('state=online'),
  );
  if (late.length === 0) return [];
  return [
    warning(
      'role',
      `${describeRole(info)} ${late.length} of them not online: a failover to it loses outcomes. Look into its log.`,
    ),
  ];
}

function memoryOf(info: Info): Finding {
  const used = Number(info.get('used_memory') ?? 0);
  const limit = Number(info.get('maxmemory') ?? 0);
  const machine = Number(info.get('total_system_memory') ?? 0);
  const available = limit > 0 ? limit : machine;
  const name = limit > 0 ? 'maxmemory' : "the machine's memory, without a maxmemory";
  const found = `${mebibytes(used)} in use, of ${mebibytes(available)} (${name}).`;
  if (available === 0 || used / available < FULL) return ok('memory', found);
  return warning(
    'memory',
    `${found} Without free memory Redis rejects new operations. Raise the limit, or shorten outcome.retention.`,
  );
}

/** @param limit - in bytes, or as a percentage of maxmemory; 0 is none. */
function clientMemoryOf(info: Info, limit = '0'): Finding[] {
  const share = /^(\d+)%$/.exec(limit)?.[1];
  const bytes =
    share === undefined
      ? Number(limit)
      : (Number(share) / 100) * Number(info.get('maxmemory') ?? 0);
  if (!(bytes > 0 && bytes < LEAST_CLIENT_MEMORY)) return [];
  return [
    warning(
      'memory',
      `maxmemory-clients is ${limit} (${mebibytes(bytes)}). When all connections together need more, Redis closes the one that needs most, as the store's does while large outcomes are stored or replayed. Set it to 0, or to ${mebibytes(LEAST_CLIENT_MEMORY)} at least.`,
    ),
  ];
}

function mebibytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}

function failedWrites(info: Info): Finding[] {
  const found: Finding[] = [];
  if (info.get('aof_last_write_status') === 'err') {
    found.push(
      error(
        'persistence',
        'The last write to the append-only file failed: Redis rejects writes. Free disk space, and look into its log.',
      ),
    );
  }
  if (info.get('rdb_last_bgsave_status') === 'err') {
    found.push(
      error(
        'persistence',
        'The last snapshot failed: with stop-writes-on-bgsave-error, Redis rejects writes. Free memory and disk space, and look into its log.',
      ),
    );
  }
  if (info.get('aof_last_bgrewrite_status') === 'err') {
    found.push(
      warning(
        'persistence',
        'The last rewrite of the append-only file failed: the file keeps growing. Free memory and disk space, and look into its log.',
      ),
    );
  }
  return found;
}

function flushOf(appendfsync: string | undefined): Finding[] {
  if (appendfsync !== 'no') return [];
  return [
    warning(
      'persistence',
      'appendfsync is no: a crash of the machine loses what the operating system has not flushed, up to half a minute of outcomes. Set it to everysec or always.',
    ),
  ];
}

function durability(appendfsync: string | undefined): string {
  if (appendfsync === 'always') return 'appendonly is on, appendfsync is always.';
  if (appendfsync === undefined) return 'appendonly is on; the user may not read appendfsync.';
  return `appendonly is on, appendfsync is ${appendfsync}: a crash of the machine loses about the last second.`;
}
