import { onFreePort } from '../servers/free-port.js';
import { RedisNode } from './redis-node.js';
import { untilSettled } from '../waiting/until.js';

export interface ClusterOptions {
  /**
   * How many replicas each of the three primaries has: 0 or 1.
   *
   * @defaultValue 1
   */
  readonly replicas?: 0 | 1;
  /** Arguments of every node. */
  readonly args?: string[];
}

export type FailoverKind =
  /** In agreement with the primary, which hands over all its data. */
  | 'planned'
  /**
   * Without the primary, which may be dead; the other primaries vote, at most every two seconds for the same
   * slots.
   */
  | 'force'
  /** Without any agreement. */
  | 'takeover';

const PRIMARIES = 3;
const SLOTS = 16_384;
const SLOTS_PER_PRIMARY = Math.ceil(SLOTS / PRIMARIES);
const NODE_TIMEOUT_MS = 1_000;
const MIGRATE_TIMEOUT_MS = 2_000;
/** How long a node attempts a requested failover. */
const MANUAL_FAILOVER_MS = 5_000;

/** Three primaries with a third of the slots each, and their replicas. */
export class RedisCluster {
  private constructor(
    readonly nodes: readonly RedisNode[],
    private readonly idOf: ReadonlyMap<RedisNode, string>,
  ) {}

  static async start({ replicas = 1, args = [] }: ClusterOptions = {}): Promise<RedisCluster> {
    const count = PRIMARIES * (1 + replicas);
    const nodes = await Promise.all(Array.from({ length: count }, () => startNode(args)));
    const ids = new Map<RedisNode, string>();
    for (const node of nodes) ids.set(node, String(await node.call('CLUSTER', 'MYID')));
    const cluster = new RedisCluster(nodes, ids);
    await cluster.form();
    return cluster;
  }

  /** The nodes that a client may connect to first. */
  get addresses(): { host: string; port: number }[] {
    return this.nodes.map(({ address }) => address);
  }

  async slotOf(key: string): Promise<number> {
    return Number(await this.alive()[0]!.call('CLUSTER', 'KEYSLOT', key));
  }

  /** The nodes that serve slots. */
  async primaries(): Promise<RedisNode[]> {
    const view = await this.viewOf(this.alive()[0]!);
    return view.filter(isPrimary).map(({ node }) => node);
  }

  /** The node that serves the slot. */
  async primaryOf(slot: number): Promise<RedisNode> {
    const view = await this.viewOf(this.alive()[0]!);
    const owner = view.find(({ slots }) => includes(slots, slot));
    if (owner === undefined) throw new Error(`no node serves slot ${slot}`);
    return owner.node;
  }

  /** Promotes the replica in its primary's place; resolves when every living node knows. */
  async failover(primary: RedisNode, kind: FailoverKind = 'planned'): Promise<RedisNode> {
    const view = await this.viewOf(this.alive()[0]!);
    const replica = view.find(({ primaryId }) => primaryId === this.idOf.get(primary))!.node;
    const words = kind === 'planned' ? [] : [kind];
    let askAgainAt = 0;
    await untilSettled(async () => {
      // A primary that has yet to learn of its replica ignores it.
      if (performance.now() >= askAgainAt) {
        await replica.call('CLUSTER', 'FAILOVER', ...words).catch(() => undefined);
        askAgainAt = performance.now() + MANUAL_FAILOVER_MS;
      }
      return this.doAllSee(withoutServing(primary));
    });
    return replica;
  }

  /** Waits until every living node knows that others serve the slots of `old`. */
  async untilReplaced(old: RedisNode): Promise<void> {
    await untilSettled(() => this.doAllSee(withoutServing(old)));
  }

  /** Waits until all slots are served, all nodes agree, and every replica is in sync with its primary. */
  async untilHealthy(): Promise<void> {
    const isComplete = (view: readonly NodeView[]) =>
      view.length === this.nodes.length &&
      view.filter(isPrimary).length === PRIMARIES &&
      view.every((entry) => entry.isWell && (isPrimary(entry) || entry.primaryId !== '-'));
    await untilSettled(async () => {
      if (!(await this.doAllSee(isComplete))) return false;
      const states = await Promise.all(this.nodes.map((node) => isInOrder(node)));
      return states.every(Boolean);
    });
  }

  /** `from` continues to serve the keys of the slot that it has, and redirects all others to `to` (ASK). */
  async startMigration(slot: number, from: RedisNode, to: RedisNode): Promise<void> {
    await to.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', this.idOf.get(from)!);
    await from.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', this.idOf.get(to)!);
  }

  /** Moves up to `count` keys of a migrating slot. */
  async moveKeys(slot: number, from: RedisNode, to: RedisNode, count: number): Promise<void> {
    const keys = (await from.call('CLUSTER', 'GETKEYSINSLOT', slot, count)) as string[];
    if (keys.length === 0) return;
    await from.call('MIGRATE', '127.0.0.1', to.port, '', 0, MIGRATE_TIMEOUT_MS, 'KEYS', ...keys);
  }

  /** Moves the remaining keys, and assigns the slot to `to` (MOVED). */
  async finishMigration(slot: number, from: RedisNode, to: RedisNode): Promise<void> {
    while (Number(await from.call('CLUSTER', 'COUNTKEYSINSLOT', slot)) > 0) {
      await this.moveKeys(slot, from, to, 100);
    }
    await this.assign(slot, to);
  }

  /** Leaves the slot without a node; its keys stay where they are. @returns the previous owner. */
  async uncover(slot: number): Promise<RedisNode> {
    const owner = await this.primaryOf(slot);
    const others = this.alive().filter((node) => node !== owner);
    for (const node of [owner, ...others]) await node.call('CLUSTER', 'DELSLOTS', slot);
    return owner;
  }

  /** Assigns a slot to a node; notifies all primaries, the new one first, as redis-cli does. */
  async assign(slot: number, owner: RedisNode): Promise<void> {
    const others = (await this.primaries()).filter((node) => node !== owner);
    for (const node of [owner, ...others]) {
      await node.call('CLUSTER', 'SETSLOT', slot, 'NODE', this.idOf.get(owner)!);
    }
    const isReported = (view: readonly NodeView[]) =>
      view.some(({ node, slots }) => node === owner && includes(slots, slot));
    await untilSettled(() => this.doAllSee(isReported));
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()));
  }

  private alive(): RedisNode[] {
    return this.nodes.filter(({ isAlive }) => isAlive);
  }

  private async form(): Promise<void> {
    const [first, ...others] = this.nodes as [RedisNode, ...RedisNode[]];
    for (const [i, node] of this.nodes.entries()) {
      // Two nodes of one epoch would first have to resolve the conflict.
      await node.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
      if (i >= PRIMARIES) continue;
      const last = Math.min((i + 1) * SLOTS_PER_PRIMARY, SLOTS) - 1;
      await node.call('CLUSTER', 'ADDSLOTSRANGE', i * SLOTS_PER_PRIMARY, last);
    }
    for (const node of others) {
      // The port of the bus is not at the usual distance.
      const [, bus] = /@(\d+)/.exec(String(await node.call('CLUSTER', 'NODES')))!;
      await first.call('CLUSTER', 'MEET', '127.0.0.1', node.port, bus!);
    }
    await untilSettled(() => this.doAllSee((view) => view.length === this.nodes.length));
    for (const [i, replica] of this.nodes.slice(PRIMARIES).entries()) {
      await replica.call('CLUSTER', 'REPLICATE', this.idOf.get(this.nodes[i]!)!);
    }
    await this.untilHealthy();
  }

  private async doAllSee(condition: (view: readonly NodeView[]) => boolean): Promise<boolean> {
    const views = await Promise.all(this.alive().map((node) => this.viewOf(node)));
    return views.every(condition);
  }

  /** The nodes as `observer` sees them; none where it does not answer. */
  private async viewOf(observer: RedisNode): Promise<NodeView[]> {
    const text = await observer.call('CLUSTER', 'NODES').catch(() => '');
    const known = new Map([...this.idOf].map(([node, id]) => [id, node]));
    return String(text)
      .split('\n')
      .flatMap((line) => {
        const [id = '', , flags = '', primaryId = '', , , , link = '', ...slots] = line.split(' ');
        const node = known.get(id);
        if (node === undefined) return [];
        const isWell =
          !flags.includes('fail') && (flags.includes('myself') || link === 'connected');
        return [{ node, primaryId, isWell, slots: slots.flatMap(rangeOf) }];
      });
  }
}

/** One line of CLUSTER NODES. */
interface NodeView {
  readonly node: RedisNode;
  /** `-` for a primary. */
  readonly primaryId: string;
  readonly isWell: boolean;
  readonly slots: readonly SlotRange[];
}

type SlotRange = readonly [first: number, last: number];

function startNode(args: readonly string[]): Promise<RedisNode> {
  return onFreePort((bus) =>
    RedisNode.start({
      // prettier-ignore
      args: [
        '--cluster-enabled', 'yes', '--cluster-port', String(bus),
        '--cluster-node-timeout', String(NODE_TIMEOUT_MS),
        '--cluster-allow-replica-migration', 'no', '--repl-diskless-sync-delay', '0', ...args,
      ],
    }),
  );
}

async function isInOrder(node: RedisNode): Promise<boolean> {
  const info = await node.call('CLUSTER', 'INFO').catch(() => '');
  if (!String(info).includes('cluster_state:ok')) return false;
  return ((await node.info('replication', 'master_link_status')) ?? 'up') === 'up';
}

function withoutServing(old: RedisNode): (view: readonly NodeView[]) => boolean {
  return (view) => {
    const primaries = view.filter(isPrimary);
    return primaries.length === PRIMARIES && primaries.every(({ node }) => node !== old);
  };
}

function isPrimary({ slots }: NodeView): boolean {
  return slots.length > 0;
}

function includes(ranges: readonly SlotRange[], slot: number): boolean {
  return ranges.some(([first, last]) => first <= slot && slot <= last);
}

/** `5` or `5-9`; what stands in brackets is migrating, and has not arrived yet. */
function rangeOf(text: string): SlotRange[] {
  const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(text) ?? [];
  return first === undefined ? [] : [[Number(first), Number(last)]];
}
