import { createHash } from 'node:crypto';
import type { Commands } from './commands.js';
import type { ReplyReceiver } from './redis-link.js';
import { NotSentError } from './send-failure.js';

interface ScannedServer {
  /** Without an `@`. */
  readonly name: string;
  commandsOf(): Pick<Commands, 'scan'>;
}

/** Enough that two maps of one cluster differ. */
const MAP_LENGTH = 11;

/**
 * One SCAN of a cluster, primary by primary, by name: the cursor is that of the server, its name, and the map of the slots.
 * After a failover or a move of slots, keys may be on a server that was already looked at: then it begins anew.
 * @param slots - the names of the servers of each slot, the primary first, as the client knows them.
 * @throws {@link NotSentError} without a server.
 */
export function scanInTurn(
  servers: readonly ScannedServer[],
  slots: Iterable<readonly string[] | undefined>,
  cursor: string,
  match: string,
  count: number,
  receiver: ReplyReceiver,
): void {
  const sorted = [...servers].sort((one, other) => (one.name < other.name ? -1 : 1));
  const map = mapOf(sorted, slots);
  const [scanned = '', after = '', of = ''] = cursor.split('@');
  const isOfMap = of === map;
  const at = isOfMap ? sorted.findIndex(({ name }) => name === after) : 0;
  const current = sorted[at];
  if (current === undefined) throw new NotSentError();
  const { name } = current;
  const nextName = sorted[at + 1]?.name;
  current.commandsOf().scan(isOfMap ? scanned : '0', match, count, {
    isOwn: (reply) => receiver.isOwn(reply),
    onReply: (reply, order) => {
      receiver.onReply(receiver.isOwn(reply) ? onServer(reply, name, nextName, map) : reply, order);
    },
    onError: (error, order) => {
      receiver.onError(error, order);
    },
  });
}

/** Which servers there are, and which slots they have. */
function mapOf(
  servers: readonly ScannedServer[],
  slots: Iterable<readonly string[] | undefined>,
): string {
  const hash = createHash('sha256').update(servers.map(({ name }) => name).join(' '));
  let last: string | undefined;
  let slot = 0;
  for (const names of slots) {
    const [primary = ''] = names ?? [];
    if (primary !== last) hash.update(` ${String(slot)} ${primary}`);
    last = primary;
    slot += 1;
  }
  return hash.digest('base64url').slice(0, MAP_LENGTH);
}

/** A page of one server as one of the cluster. @param nextName - of the server after it, if there is one. */
function onServer(
  reply: unknown,
  name: string,
  nextName: string | undefined,
  map: string,
): unknown {
  const [cursor, keys] = reply as readonly [cursor: string, keys: unknown];
  if (cursor !== '0') return [`${cursor}@${name}@${map}`, keys];
  return [nextName === undefined ? '0' : `0@${nextName}@${map}`, keys];
}
