import type { RecordKey } from '../../core/record/record.js';
import type {
  Abandoned,
  AbandonedPage,
  AbandonedRecord,
} from '../../core/store/idempotency-store.js';
import { StoreUnavailableError } from '../../core/util/errors.js';
import type { BinaryRedisClient, KeyScanner, OrderedClient } from './ioredis/client-types.js';
import type { ConnectionState } from './ioredis/connection-state.js';
import type { LuaScript } from './scripts/lua-scripts.js';
import { parseAbandonedReply } from './scripts/replies.js';
import type { ReplyOrder } from './scripts/reply-order.js';
import type { ScriptRunner } from './scripts/script-runner.js';
import { sendUntilDeadline } from './scripts/send-until-deadline.js';

/** Approximate number of keys per SCAN: a few microseconds of server time each, and as much again to evaluate it. */
const KEYS_PER_PAGE = 100;

interface Position {
  readonly node: ScannedNode;
  readonly cursor: string;
}

interface ScannedNode {
  /** Empty if there is only one server. */
  readonly name: string;
  readonly client: KeyScanner & OrderedClient;
}

/** Lists abandoned records: one SCAN a page; a script evaluates each key. On a cluster, primary by primary, by name. */
export class AbandonedScan {
  /** What precedes the record key in a key, as the server stores it. */
  private readonly prefix: string;

  /** @param keyStart - the same, without the prefix that the client adds. */
  constructor(
    private readonly client: BinaryRedisClient,
    private readonly connection: ConnectionState,
    private readonly orderOf: (client: OrderedClient) => ReplyOrder,
    private readonly runner: ScriptRunner,
    private readonly script: LuaScript,
    private readonly keyStart: string,
  ) {
    // ioredis adds its prefix to the keys of commands, but not to the pattern of SCAN.
    this.prefix = (client.options?.keyPrefix ?? '') + keyStart;
  }

  async page({ overMs, limit, cursor, timeoutMs }: Abandoned): Promise<AbandonedPage> {
    const deadline = performance.now() + timeoutMs;
    const position = this.positionOf(cursor);
    if (position === undefined) return { records: [] };
    const { node } = position;
    const count = Math.min(limit, KEYS_PER_PAGE);
    const match = ['MATCH', `${escaped(this.prefix)}*`, 'COUNT', String(count), 'TYPE', 'string'];
    const scan = () => ({
      send: () => node.client.scan(position.cursor, ...match),
      isOwn: isPage,
      order: this.orderOf(node.client),
    });
    const [next, keys] = await sendUntilDeadline(
      this.connection,
      timeoutMs,
      scan,
      (found) => found,
    );
    const leftMs = Math.max(1, deadline - performance.now());
    const evaluated = await Promise.all(keys.map((key) => this.evaluate(key, overMs, leftMs)));
    const records = evaluated.filter((record) => record !== undefined);
    const isNodeDone = next === '0';
    const name = isNodeDone ? this.nameAfter(node.name) : node.name;
    return name === undefined
      ? { records }
      : { records, cursor: `${isNodeDone ? '0' : next}@${name}` };
  }

  private evaluate(
    key: string,
    overMs: number,
    timeoutMs: number,
  ): Promise<AbandonedRecord | undefined> {
    const recordKey = key.slice(this.prefix.length) as RecordKey;
    const args = () => [String(overMs)];
    return this.runner.run(this.script, this.keyStart + recordKey, args, timeoutMs, (reply) => {
      const abandoned = parseAbandonedReply(reply);
      return abandoned && { recordKey, ...abandoned };
    });
  }

  /** After a failover, other servers have the keys of a server that is gone: the next scan finds them there. */
  private positionOf(cursor = '0@'): Position | undefined {
    const [scanned = '', name = ''] = cursor.split('@');
    const nodes = this.nodes();
    const node = nodes.find((candidate) => candidate.name >= name);
    return node && { node, cursor: node.name === name ? scanned : '0' };
  }

  private nameAfter(name: string): string | undefined {
    return this.nodes().find((node) => node.name > name)?.name;
  }

  private nodes(): readonly ScannedNode[] {
    const { client } = this;
    if (client.isCluster !== true) return [{ name: '', client }];
    const nodes = (client.nodes?.('master') ?? []).map((node) => {
      const { host = '', port = '' } = node.options ?? {};
      return { name: `${host}:${String(port)}`, client: node };
    });
    if (nodes.length === 0) {
      throw new StoreUnavailableError('No primary of the cluster is known yet.');
    }
    return nodes.sort((one, other) => (one.name < other.name ? -1 : 1));
  }
}

/** Checks the shape only: the reply has no nonce. A script evaluates each of its keys. */
function isPage(reply: unknown): reply is [cursor: string, keys: string[]] {
  return Array.isArray(reply) && typeof reply[0] === 'string' && Array.isArray(reply[1]);
}

function escaped(text: string): string {
  return text.replace(/[\\*?[\]^-]/g, '\\$&');
}
