import { monotonicNow } from '../../../core/util/time.js';
import type { BinaryRedisClient, ClusterNode, ScriptClient } from '../connection/client-types.js';
import { NotSentError } from '../connection/error-classification.js';
import { CorkedWrites } from '../connection/own-connection.js';
import { StallDetector } from '../connection/stall-detector.js';
import { ReplyOrder, type MismatchListener } from './reply-order.js';

/** A connection to one server, as scripts are sent over it. */
export interface ScriptLink {
  readonly client: ScriptClient;
  /** What the client itself does not put before a key. */
  readonly keyPrefix: string;
  readonly order: ReplyOrder;
  /** Where commands go out together. */
  readonly corkedWrites?: CorkedWrites | undefined;
  /** Told of what is sent, where somebody replaces a silent connection. */
  readonly stallDetector?: StallDetector | undefined;
  /** A cluster's own way of sending, which follows redirections, and which nothing may be sent together with. */
  readonly isRouted?: boolean;
}

/** The connections over which scripts are sent, each by its key. */
export interface ScriptLinks {
  /** @throws {@link NotSentError} while there is none. */
  linkOf(key: string): ScriptLink;
  /** Where what `from` redirects has to be sent; nothing where only a later copy can find the way. */
  redirect?(from: ScriptLink, redirection: Error): ScriptLink | undefined;
}

/** Between two questions for the map of a cluster: each opens a connection. */
const REFRESH_PAUSE_MS = 100;

/**
 * The connections of a cluster, each taken by itself.
 *
 * ioredis' `Cluster` routes each command of a pipeline for itself while a slot's node is missing, also of those that it
 * makes for auto-pipelining. Commands are then expected replies of that were never sent, and every later reply of that
 * connection goes to another command than its own.
 */
export class ClusterLinks implements ScriptLinks {
  private readonly routed: ScriptLink;
  private readonly links = new WeakMap<ClusterNode, ScriptLink>();
  /** The names of nodes to which slots were said to have moved: the cluster's own map may not have them all. */
  private readonly moved = new Map<number, string>();
  private refreshedAt = -Infinity;

  /** @param stallTimeoutMs - after which a connection that owes replies is replaced; left out, nobody does. */
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
    // ioredis pipelines it then, and cannot without the slot.
    const isPipelined = cluster.options?.enableAutoPipelining === true;
    return isPipelined && cluster.slots?.[Number(slot)] === undefined ? undefined : this.routed;
  }

  /** A node that has not got the slot says who has. */
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

  /** As the cluster's servers are known here. */
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
    // The node would put another prefix before the key than the cluster.
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

  /** A node that is gone is replaced once somebody asks who has its slots. @returns whether it was asked now. */
  private refresh(): boolean {
    const now = monotonicNow();
    if (now - this.refreshedAt < REFRESH_PAUSE_MS) return false;
    this.refreshedAt = now;
    this.cluster.refreshSlotsCache?.();
    return true;
  }
}

function isReady(node: ClusterNode | undefined): node is ClusterNode {
  return node?.status === 'ready';
}

/** @returns whether one of them waited for its first command. */
function connectIdle(nodes: readonly (ClusterNode | undefined)[]): boolean {
  const idle = nodes.find((node) => node?.status === 'wait');
  if (idle !== undefined) connect(idle);
  return idle !== undefined;
}

function connect(client: Pick<BinaryRedisClient, 'connect'>): void {
  // What it fails of, whoever sends the command hears when it is tried again.
  client.connect().catch(() => undefined);
}

const SLOTS = 16_384;

/** CRC16-CCITT (XMODEM) of each byte. */
const CRC_OF_BYTE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit += 1) crc = (crc << 1) ^ ((crc & 0x8000) === 0 ? 0 : 0x1021);
  return crc;
});

/** The slot of a cluster that a key belongs to: by what stands in its first braces, should there be something. */
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
