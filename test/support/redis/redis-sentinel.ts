import { RedisNode } from './redis-node.js';
import { untilSettled } from '../waiting/until.js';

export interface SentinelOptions {
  /** Arguments of the three redis-servers. */
  readonly args?: string[];
  /**
   * How long a primary has to be silent before the Sentinels replace it, in ms.
   *
   * @defaultValue 500
   */
  readonly downAfterMs?: number;
}

/** What a client needs to find the primary. */
export interface SentinelConnection {
  readonly sentinels: { readonly host: string; readonly port: number }[];
  readonly name: string;
}

const NAME = 'payments';
const REPLICAS = 2;
const SENTINELS = 3;

/**
 * The first Sentinel may declare the primary dead alone, and does so a second before the others: those that
 * notice together may split their votes repeatedly. It still needs the others' votes to act.
 */
const QUORUM = 1;
const LEAD_MS = 1_000;

/** A failover without an end is given up after this time, and another may follow after twice as long. */
const FAILOVER_TIMEOUT_MS = 1_000;

/**
 * A Sentinel checks its servers every ten seconds, and a failover mostly waits for that. Ours check often:
 * the steps of a failover stay the same. Not too often: once the primary is down they check every second, and
 * accept no replica that they have not seen for five pings.
 */
const HASTE_MS = {
  'info-period': 250,
  'publish-period': 250,
  'ping-period': 300,
  'ask-period': 100,
};

/** One primary and two replicas, watched by three Sentinels. */
export class RedisSentinel {
  private constructor(
    readonly nodes: readonly RedisNode[],
    readonly sentinels: readonly RedisNode[],
  ) {}

  /** The replicas first: Sentinels that watch a group form take far longer. */
  static async start({
    args = [],
    downAfterMs = 500,
  }: SentinelOptions = {}): Promise<RedisSentinel> {
    const nodes = await startNodes(1 + REPLICAS, {
      args: ['--repl-diskless-sync-delay', '0', '--repl-ping-replica-period', '1', ...args],
    });
    const [primary, ...replicas] = nodes as [RedisNode, ...RedisNode[]];
    for (const replica of replicas) await follow(replica, primary);
    await untilSettled(() => hasReplicas(primary, REPLICAS));
    const sentinels = await startNodes(SENTINELS, { args: ['--sentinel'], hasConfigFile: true });
    await Promise.all(
      sentinels.map((sentinel, i) => watchOver(sentinel, primary, downAfterMs + i * LEAD_MS)),
    );
    const group = new RedisSentinel(nodes, sentinels);
    await group.untilHealthy();
    return group;
  }

  get connection(): SentinelConnection {
    return { sentinels: this.sentinels.map(({ address }) => address), name: NAME };
  }

  /** The primary that the Sentinels name. */
  async primary(): Promise<RedisNode> {
    const address = await this.ask('GET-MASTER-ADDR-BY-NAME', NAME);
    const port = Number((address as [host: string, port: string])[1]);
    return this.nodes.find((node) => node.port === port)!;
  }

  async replicas(): Promise<RedisNode[]> {
    const primary = await this.primary();
    return this.nodes.filter((node) => node !== primary);
  }

  /**
   * A planned failover: the old primary becomes a replica of the new one. It does not wait: what it confirms
   * between the promotion of the other and its own demotion is lost.
   */
  async failover(): Promise<RedisNode> {
    const old = await this.primary();
    await untilSettled(() =>
      this.ask('FAILOVER', NAME).then(
        () => true,
        () => false,
      ),
    );
    return this.untilReplaced(old);
  }

  /** Waits until the Sentinels name another primary than `old`, and it is one. */
  async untilReplaced(old: RedisNode): Promise<RedisNode> {
    let primary = old;
    await untilSettled(async () => {
      primary = await this.primary();
      return primary !== old && (await primary.info('replication', 'role')) === 'master';
    });
    return primary;
  }

  /** Waits until the replicas have all that the primary has now. */
  async untilSynced(): Promise<void> {
    const offset = Number(await (await this.primary()).info('replication', 'master_repl_offset'));
    const replicas = await this.replicas();
    await untilSettled(async () => {
      const reached = replicas.map((replica) => replica.info('replication', 'slave_repl_offset'));
      return (await Promise.all(reached)).every((own) => Number(own) >= offset);
    });
  }

  /**
   * Nothing reaches the replicas any more, though their primary accepts writes: what it confirms from now on
   * is lost when it dies. Permanent: the server offers no other end of it.
   */
  async cutReplication(): Promise<void> {
    const primary = await this.primary();
    await primary.call('ACL', 'SETUSER', 'default', '-psync', '-sync');
    await primary.call('CLIENT', 'KILL', 'TYPE', 'replica');
    await untilSettled(async () => (await primary.info('replication', 'connected_slaves')) === '0');
  }

  /** Restarts a dead server as a replica of the present primary. */
  async restart(node: RedisNode): Promise<void> {
    const primary = await this.primary();
    await node.start('--replicaof', '127.0.0.1', String(primary.port));
  }

  /** Waits until the replicas follow the primary and every Sentinel knows: the next failover may follow. */
  async untilHealthy(): Promise<void> {
    await untilSettled(async () => {
      const primary = await this.primary();
      if (!(await hasReplicas(primary, REPLICAS))) return false;
      const views = this.sentinels.map((sentinel) => seesAllOf(sentinel, primary));
      return (await Promise.all(views)).every(Boolean);
    });
  }

  async stop(): Promise<void> {
    await Promise.all([...this.sentinels, ...this.nodes].map((node) => node.stop()));
  }

  private ask(...args: string[]): Promise<unknown> {
    return this.sentinels[0]!.call('SENTINEL', ...args);
  }
}

function startNodes(count: number, options: Parameters<typeof RedisNode.start>[0]) {
  return Promise.all(Array.from({ length: count }, () => RedisNode.start(options)));
}

/** Makes `replica` one of `primary`'s, and waits until it has its data. */
export async function follow(replica: RedisNode, primary: RedisNode): Promise<void> {
  await replica.call('REPLICAOF', '127.0.0.1', primary.port);
  await untilSettled(
    async () => (await replica.info('replication', 'master_link_status')) === 'up',
  );
}

async function watchOver(sentinel: RedisNode, primary: RedisNode, downAfterMs: number) {
  const set = (option: string, value: number) =>
    sentinel.call('SENTINEL', 'SET', NAME, option, value);
  await sentinel.call('SENTINEL', 'DEBUG', ...Object.entries(HASTE_MS).flat());
  await sentinel.call('SENTINEL', 'MONITOR', NAME, '127.0.0.1', primary.port, QUORUM);
  await set('down-after-milliseconds', downAfterMs);
  await set('failover-timeout', FAILOVER_TIMEOUT_MS);
}

async function hasReplicas(primary: RedisNode, count: number): Promise<boolean> {
  const fields = Array.from({ length: count }, (_, i) => primary.info('replication', `slave${i}`));
  return (await Promise.all(fields)).every((replica) => replica?.includes('state=online') ?? false);
}

/** Whether the Sentinel knows the others, and reports no problem with this primary and its replicas. */
async function seesAllOf(sentinel: RedisNode, primary: RedisNode): Promise<boolean> {
  const about = async (what: string) =>
    ((await sentinel.call('SENTINEL', what, NAME)) as unknown[]).map((entry) => fields(entry));
  const [group, replicas] = await Promise.all([
    sentinel.call('SENTINEL', 'MASTER', NAME).then(fields),
    about('REPLICAS'),
  ]);
  return (
    group.get('port') === String(primary.port) &&
    group.get('flags') === 'master' &&
    group.get('num-other-sentinels') === String(SENTINELS - 1) &&
    replicas.length === REPLICAS &&
    replicas.every(
      (replica) =>
        replica.get('flags') === 'slave' &&
        replica.get('master-link-status') === 'ok' &&
        replica.get('master-port') === String(primary.port),
    )
  );
}

/** A reply of alternating names and values; a connection with RESP 3 returns it as a map. */
function fields(reply: unknown): ReadonlyMap<string, string> {
  const flat = Array.isArray(reply) ? (reply as string[]) : Object.entries(reply as object).flat();
  const pairs = new Map<string, string>();
  for (let i = 0; i + 1 < flat.length; i += 2) pairs.set(String(flat[i]), String(flat[i + 1]));
  return pairs;
}
