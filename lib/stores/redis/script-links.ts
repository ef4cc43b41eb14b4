import { monotonicNow } from '../../core/pause.js';
import type { BinaryRedisClient, ClusterNode, ScriptClient } from './binary-client.js';
import { NotSentError } from './error-classification.js';
import { keySlot } from './key-slot.js';
import { ReplyOrder, type MismatchTold } from './reply-order.js';
import { SilenceWatch } from './silence-watch.js';
import { WriteBatch } from './write-batch.js';

/** A connection to one server, as scripts are sent over it. */
export interface ScriptLink {
  readonly client: ScriptClient;
  /** What the client itself does not put before a key. */
  readonly keyPrefix: string;
  readonly order: ReplyOrder;
  /** Where commands go out together. */
  readonly batch?: WriteBatch | undefined;
  /** Told of what is sent, where somebody replaces a silent connection. */
  readonly silence?: SilenceWatch | undefined;
}

/** The connections over which scripts are sent, each by its key. */
export interface ScriptLinks {
  /** @throws {@link NotSentError} while there is none. */
  linkOf(key: string): ScriptLink;
  /** Follows redirections: a cluster's own way of sending. */
  readonly redirected?: ScriptLink;
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
  readonly redirected: ScriptLink;
  private readonly links = new WeakMap<ClusterNode, ScriptLink>();
  private refreshedAt = -Infinity;

  /** @param silenceMs - after which a connection that owes replies is replaced; left out, nobody does. */
  constructor(
    private readonly cluster: BinaryRedisClient,
    private readonly tell: MismatchTold,
    private readonly silenceMs?: number,
  ) {
    this.redirected = { client: cluster, keyPrefix: '', order: new ReplyOrder(cluster, tell) };
  }

  linkOf(key: string): ScriptLink {
    const { cluster } = this;
    const prefix = cluster.options?.keyPrefix ?? '';
    const name = cluster.slots?.[keySlot(prefix + key)]?.[0];
    const node = name === undefined ? undefined : this.nodeOf(name);
    if (node?.status === 'ready') return this.links.get(node) ?? this.newLink(node, prefix);
    if (cluster.status === 'wait') connect(cluster);
    else if (node === undefined) this.refresh();
    else if (node.status === 'wait') connect(node);
    throw new NotSentError();
  }

  private nodeOf(name: string): ClusterNode | undefined {
    return this.cluster
      .nodes?.('master')
      .find(({ options }) => name === `${options?.host ?? ''}:${String(options?.port)}`);
  }

  private newLink(node: ClusterNode, prefix: string): ScriptLink {
    const { cluster, silenceMs, tell } = this;
    const own = node.options?.keyPrefix ?? '';
    // The node would put another prefix before the key than the cluster.
    if (own !== '' && own !== prefix) return this.redirected;
    const link = {
      client: node,
      keyPrefix: own === '' ? prefix : '',
      order: new ReplyOrder(node, tell),
      batch: cluster.options?.enableAutoPipelining === true ? new WriteBatch(node) : undefined,
      silence: silenceMs === undefined ? undefined : new SilenceWatch(node, silenceMs),
    };
    this.links.set(node, link);
    return link;
  }

  /** A node that is gone is replaced once somebody asks who has its slots. */
  private refresh(): void {
    const now = monotonicNow();
    if (now - this.refreshedAt < REFRESH_PAUSE_MS) return;
    this.refreshedAt = now;
    this.cluster.refreshSlotsCache?.();
  }
}

function connect(client: Pick<BinaryRedisClient, 'connect'>): void {
  // What it fails of, whoever sends the command hears when it is tried again.
  client.connect().catch(() => undefined);
}
