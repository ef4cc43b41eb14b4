import { nodeClock } from '../../../core/util/clock.js';
import type { Redirection, ReplyReceiver } from '../link/redis-link.js';
import type { MismatchListener } from '../link/reply-order.js';
import type { Commands } from '../link/commands.js';
import { NotSentError } from '../link/send-failure.js';
import { keySlot } from '../link/key-slot.js';
import { ReplicatedCommands } from '../link/replicated-commands.js';
import { scanInTurn } from '../link/scan-in-turn.js';
import { StallDetector } from '../link/stall-detector.js';
import { ClientCommands, CorkedWrites, orderOf } from './client-commands.js';
import type { BinaryRedisClient, ClusterNode } from './client-types.js';
import { isErrorReply } from './error-classification.js';
import type { OpenedConnection } from './own-connection.js';
import { clusterDatabaseOf } from './selected-database.js';

/** Between two reads of a cluster's slot map: each opens a connection. */
const REFRESH_PAUSE_MS = 100;

/**
 * The connections of a cluster, each used directly. While a slot's node is missing, the `Cluster` of ioredis routes
 * each command of a pipeline by itself: replies are then expected of commands that were never sent, and every later
 * reply of that connection goes to the wrong command.
 */
export class ClusterRoutes {
  private readonly commands = new WeakMap<ClusterNode, Commands>();
  /** Nodes that slots were said to have moved to: the cluster's map may lack them. */
  private readonly moved = new Map<number, string>();
  private refreshedAt = -Infinity;

  /**
   * @param routed - the `Cluster`, which follows redirections. No other command may be sent with it.
   * @param opened - if the store has opened the cluster's connections.
   */
  constructor(
    private readonly cluster: BinaryRedisClient,
    private readonly routed: Commands,
    private readonly onMismatch: MismatchListener,
    private readonly opened: OpenedConnection | undefined,
  ) {}

  /** @throws {@link NotSentError} without a connection to the server that has the key. */
  commandsOf(key: string): Commands {
    const { cluster } = this;
    const slot = keySlot((cluster.options?.keyPrefix ?? '') + key);
    const mapped = this.nodeOf(cluster.slots?.[slot]?.[0]);
    if (isReady(mapped)) return this.commandsTo(mapped);
    const moved = this.nodeOf(this.moved.get(slot));
    if (isReady(moved)) return this.commandsTo(moved);
    if (cluster.status === 'wait') connect(cluster);
    else if (!connectIdle([mapped, moved]) && !this.refresh()) return this.anyCommands();
    throw new NotSentError();
  }

  /** @throws its error, if it names no other server, or one that only a later attempt can reach. */
  redirect({ error, order }: Redirection): Commands {
    const { cluster } = this;
    const text = isErrorReply(error) ? error.message : '';
    const [, code, slot, address = ''] = /^(MOVED|ASK) (\d{1,5}) (\S+)/.exec(text) ?? [];
    if (code === undefined) throw error;
    const name = this.nameOf(address);
    const node = this.nodeOf(name);
    if (code === 'MOVED') {
      this.moved.set(Number(slot), name);
      this.refresh();
      if (node !== undefined && !isReady(node)) {
        connectIdle([node]);
        throw error;
      }
      const commands = node && this.commandsTo(node);
      if (commands !== undefined && commands.order !== order) return commands;
    }
    // ioredis would connect, and send the command before the database is verified.
    if (clusterDatabaseOf(cluster) !== 0 && !isReady(node)) throw error;
    // ioredis would pipeline it, and cannot without the slot.
    const isPipelined = cluster.options?.enableAutoPipelining === true;
    if (isPipelined && cluster.slots?.[Number(slot)] === undefined) throw error;
    return this.routed;
  }

  scan(cursor: string, match: string, count: number, receiver: ReplyReceiver): void {
    const nodes = (this.cluster.nodes?.('master') ?? []).map((node) => {
      const { host = '', port = '' } = node.options ?? {};
      const name = `${host}:${String(port)}`;
      return { name, commandsOf: () => this.readyCommandsTo(node) };
    });
    scanInTurn(nodes, this.cluster.slots ?? [], cursor, match, count, receiver);
  }

  /** @throws {@link NotSentError} without a connection. */
  private readyCommandsTo(node: ClusterNode): Commands {
    if (isReady(node)) return this.commandsTo(node);
    if (!connectIdle([node])) this.refresh();
    throw new NotSentError();
  }

  /** Any node redirects to the one that has the slot. */
  private anyCommands(): Commands {
    const nodes = this.cluster.nodes?.('master') ?? [];
    const ready = nodes.filter(isReady);
    const node = ready[Math.floor(Math.random() * ready.length)];
    if (node !== undefined) return this.commandsTo(node);
    connectIdle(nodes);
    throw new NotSentError();
  }

  private nodeOf(name: string | undefined): ClusterNode | undefined {
    if (name === undefined) return undefined;
    return this.cluster
      .nodes?.('master')
      .find(({ options }) => name === `${options?.host ?? ''}:${String(options?.port)}`);
  }

  /** The name that the cluster's client uses for an address. */
  private nameOf(address: string): string {
    const natMap = this.cluster.options?.natMap;
    const mapped = typeof natMap === 'function' ? natMap(address) : natMap?.[address];
    return mapped ? `${mapped.host}:${String(mapped.port)}` : address;
  }

  private commandsTo(node: ClusterNode): Commands {
    return this.commands.get(node) ?? this.newCommands(node);
  }

  private newCommands(node: ClusterNode): Commands {
    const { cluster, opened, onMismatch } = this;
    const { stallTimeoutMs, required } = opened ?? {};
    const { keyPrefix: prefix = '', enableAutoPipelining = false } = cluster.options ?? {};
    const own = node.options?.keyPrefix ?? '';
    // The node adds a different prefix than the cluster.
    if (own !== '' && own !== prefix) return this.routed;
    const isCorked = enableAutoPipelining || opened !== undefined;
    const direct = new ClientCommands(node, orderOf(node, onMismatch), {
      keyPrefix: own === '' ? prefix : '',
      corkedWrites: isCorked ? new CorkedWrites(node) : undefined,
      stallDetector:
        stallTimeoutMs === undefined ? undefined : new StallDetector(node, stallTimeoutMs),
    });
    const commands = required === undefined ? direct : new ReplicatedCommands(direct, required);
    this.commands.set(node, commands);
    return commands;
  }

  /** Reads the slot map, which replaces nodes that are gone. @returns whether it was read now. */
  private refresh(): boolean {
    const now = nodeClock.now();
    if (now - this.refreshedAt < REFRESH_PAUSE_MS) return false;
    this.refreshedAt = now;
    this.cluster.refreshSlotsCache?.();
    return true;
  }
}

function isReady(node: ClusterNode | undefined): node is ClusterNode {
  return node?.status === 'ready';
}

/** @returns whether one of them was in state "wait". */
function connectIdle(nodes: readonly (ClusterNode | undefined)[]): boolean {
  const idle = nodes.find((node) => node?.status === 'wait');
  if (idle !== undefined) connect(idle);
  return idle !== undefined;
}

function connect(client: Pick<BinaryRedisClient, 'connect'>): void {
  // The next attempt to send reports the error.
  client.connect().catch(() => undefined);
}
