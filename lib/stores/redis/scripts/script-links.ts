import { nodeClock } from '../../../core/util/clock.js';
import type { BinaryRedisClient, ClusterNode, ScriptClient } from '../ioredis/client-types.js';
import { NotSentError } from '../ioredis/error-classification.js';
import type { OwnCommands } from '../ioredis/own-commands.js';
import { CorkedWrites } from '../ioredis/own-connection.js';
import { clusterDatabaseOf } from '../ioredis/selected-database.js';
import { StallDetector } from '../ioredis/stall-detector.js';
import { ReplyOrder, type MismatchListener } from './reply-order.js';

export interface ScriptLink {
  readonly client: ScriptClient;
  /** Prefix that the client does not add to keys itself. */
  readonly keyPrefix: string;
  readonly order: ReplyOrder;
  /** Undefined if each command is sent at once. */
  readonly corkedWrites?: CorkedWrites | undefined;
  /** Only of a connection that the store opened. */
  readonly ownCommands?: OwnCommands | undefined;
  /** Notified of each command, if stalled connections are replaced. */
  readonly stallDetector?: StallDetector | undefined;
  /** Sends through the `Cluster`, which follows redirections. No other command may be sent with it. */
  readonly isRouted?: boolean;
}

export interface ScriptLinks {
  /** @throws {@link NotSentError} without a connection. */
  linkOf(key: string): ScriptLink;
  /** Where to send a command that `from` redirected; undefined if only a later attempt can find the node. */
  redirect?(from: ScriptLink, redirection: Error): ScriptLink | undefined;
}

/** Between two reads of a cluster's slot map: each opens a connection. */
const REFRESH_PAUSE_MS = 100;

/**
 * The connections of a cluster, each used directly. While a slot's node is missing, the `Cluster` of ioredis routes
 * each command of a pipeline by itself: replies are then expected of commands that were never sent, and every later
 * reply of that connection goes to the wrong command.
 */
export class ClusterLinks implements ScriptLinks {
  private readonly routed: ScriptLink;
  private readonly links = new WeakMap<ClusterNode, ScriptLink>();
  /** Nodes that slots were said to have moved to: the cluster's map may lack them. */
  private readonly moved = new Map<number, string>();
  private refreshedAt = -Infinity;

  /** @param stallTimeoutMs - how long a connection with pending replies may stall; unlimited by default. */
  constructor(
    private readonly cluster: BinaryRedisClient,
    private readonly onMismatch: MismatchListener,
    private readonly stallTimeoutMs?: number,
  ) {
    const order = new ReplyOrder(cluster, onMismatch);
    this.routed = { client: cluster, keyPrefix: '', order, isRouted: true };
  }

  linkOf(key: string): ScriptLink {
    const { cluster } = this;
    const slot = keySlot((cluster.options?.keyPrefix ?? '') + key);
    const mapped = this.nodeOf(cluster.slots?.[slot]?.[0]);
    if (isReady(mapped)) return this.linkTo(mapped);
    const moved = this.nodeOf(this.moved.get(slot));
    if (isReady(moved)) return this.linkTo(moved);
    if (cluster.status === 'wait') connect(cluster);
    else if (!connectIdle([mapped, moved]) && !this.refresh()) return this.anyLink();
    throw new NotSentError();
  }

  redirect(from: ScriptLink, { message }: Error): ScriptLink | undefined {
    const { cluster } = this;
    const [, code, slot, address] = /^(MOVED|ASK) (\d{1,5}) (\S+)/.exec(message) ?? [];
    if (code === 'MOVED' && address !== undefined) {
      const name = this.nameOf(address);
      this.moved.set(Number(slot), name);
      this.refresh();
      const node = this.nodeOf(name);
      if (node !== undefined && !isReady(node)) {
        connectIdle([node]);
        return undefined;
      }
      const link = node && this.linkTo(node);
      if (link !== undefined && link !== from) return link;
    }
    // ioredis would connect, and send the command before the database is verified.
    if (clusterDatabaseOf(cluster) !== 0 && !isReady(this.nodeOf(this.nameOf(address ?? '')))) {
      return undefined;
    }
    // ioredis would pipeline it, and cannot without the slot.
    const isPipelined = cluster.options?.enableAutoPipelining === true;
    return isPipelined && cluster.slots?.[Number(slot)] === undefined ? undefined : this.routed;
  }

  /** Any node redirects to the one that has the slot. */
  private anyLink(): ScriptLink {
    const nodes = this.cluster.nodes?.('master') ?? [];
    const ready = nodes.filter(isReady);
    const node = ready[Math.floor(Math.random() * ready.length)];
    if (node !== undefined) return this.linkTo(node);
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

  private linkTo(node: ClusterNode): ScriptLink {
    return this.links.get(node) ?? this.newLink(node, this.cluster.options?.keyPrefix ?? '');
  }

  private newLink(node: ClusterNode, prefix: string): ScriptLink {
    const { cluster, stallTimeoutMs, onMismatch } = this;
    const own = node.options?.keyPrefix ?? '';
    // The node adds a different prefix than the cluster.
    if (own !== '' && own !== prefix) return this.routed;
    const link = {
      client: node,
      keyPrefix: own === '' ? prefix : '',
      order: new ReplyOrder(node, onMismatch),
      corkedWrites:
        cluster.options?.enableAutoPipelining === true ? new CorkedWrites(node) : undefined,
      stallDetector:
        stallTimeoutMs === undefined ? undefined : new StallDetector(node, stallTimeoutMs),
    };
    this.links.set(node, link);
    return link;
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

const SLOTS = 16_384;

/** CRC16-CCITT (XMODEM) of each byte. */
const CRC_OF_BYTE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit += 1) crc = (crc << 1) ^ ((crc & 0x8000) === 0 ? 0 : 0x1021);
  return crc;
});

/** The cluster slot of a key: of its hash tag (the text in the first braces), if it has one. */
function keySlot(key: string): number {
  const open = key.indexOf('{');
  const close = open < 0 ? -1 : key.indexOf('}', open + 1);
  const hashed = close > open + 1 ? key.slice(open + 1, close) : key;
  let crc = 0;
  for (const byte of Buffer.from(hashed)) {
    crc = ((crc << 8) & 0xffff) ^ (CRC_OF_BYTE[(crc >> 8) ^ byte] ?? 0);
  }
  return crc % SLOTS;
}
