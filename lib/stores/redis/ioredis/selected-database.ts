import { nodeClock } from '../../../core/util/clock.js';
import type { BinaryRedisClient, ClusterNode } from './client-types.js';
import { describeFailure, isErrorReply, WrongDatabaseError } from './error-classification.js';
import type { StallDetector } from '../link/stall-detector.js';

/** How soon to ask again after a rejection: the user may have been granted the database meanwhile. */
const RECHECK_MS = 1_000;

export interface DatabaseCheck {
  /** Whether commands may be sent now. Starts the checks that are still to be made. */
  readonly isVerified: boolean;
  /** Why not, if a server has rejected the database. */
  readonly error: Error | undefined;
}

/**
 * @param isOwn - the store opened the connection.
 * @returns undefined if no other database can be selected: the store alone has the connection.
 */
export function checkDatabaseOf(
  client: BinaryRedisClient,
  isOwn: boolean,
  stallDetector?: StallDetector,
): DatabaseCheck | undefined {
  if (isOwn && client.isCluster !== true && databaseOf(client) === 0) return undefined;
  return client.isCluster === true
    ? new ClusterDatabases(client, isOwn)
    : new SelectedDatabase(client, isOwn, stallDetector);
}

/** Clusters of Valkey 9 have numbered databases: each connection to each server selects its own. */
class ClusterDatabases implements DatabaseCheck {
  private readonly checks = new WeakMap<ClusterNode, SelectedDatabase>();

  constructor(
    private readonly cluster: BinaryRedisClient,
    private readonly isOwn: boolean,
  ) {}

  get isVerified(): boolean {
    if (clusterDatabaseOf(this.cluster) === 0) return true;
    // All of them, so that each starts its check.
    return this.used().filter((check) => !check.isVerified).length === 0;
  }

  get error(): Error | undefined {
    return this.used().find(({ error }) => error !== undefined)?.error;
  }

  /** Of the servers that a command may reach now: one that is gone must not block the others. */
  private used(): SelectedDatabase[] {
    const nodes = this.cluster.nodes?.('master') ?? [];
    return nodes
      .filter(({ status }) => status === 'ready' || status === 'wait')
      .map((node) => this.checkOf(node));
  }

  private checkOf(node: ClusterNode): SelectedDatabase {
    let check = this.checks.get(node);
    if (check === undefined) {
      check = new SelectedDatabase(node, this.isOwn);
      this.checks.set(node, check);
    }
    return check;
  }
}

/** Verifies the database: ioredis continues in database 0 when the server rejects another, also after a reconnect. */
class SelectedDatabase implements DatabaseCheck {
  private verified: object | undefined;
  private checking: object | undefined;
  private recheckAt = Infinity;
  private rejection: WrongDatabaseError | undefined;

  /** @param isOwn - the store may SELECT on it. On an application's client it reads the current database first. */
  constructor(
    private readonly client: BinaryRedisClient,
    private readonly isOwn: boolean,
    private readonly stallDetector?: StallDetector,
  ) {}

  get isVerified(): boolean {
    const { client } = this;
    const database = databaseOf(client);
    if (database === 0) return true;
    if (client.status === 'wait') {
      // The next attempt to send fails with the same error, and reports it.
      client.connect().catch(() => undefined);
      return false;
    }
    const { stream } = client;
    if (stream === undefined || stream === this.verified) return stream !== undefined;
    if (stream !== this.checking || nodeClock.now() >= this.recheckAt) this.check(stream, database);
    return false;
  }

  get error(): Error | undefined {
    return this.rejection;
  }

  private check(stream: object, database: number): void {
    if (stream !== this.checking) this.rejection = undefined;
    this.checking = stream;
    this.recheckAt = Infinity;
    this.stallDetector?.sent();
    const onReply = (rejection?: WrongDatabaseError) => {
      this.stallDetector?.settled();
      if (this.checking !== stream) return;
      this.rejection = rejection;
      if (rejection === undefined) this.verified = stream;
      else this.recheckAt = nodeClock.now() + RECHECK_MS;
    };
    (this.isOwn ? this.select() : this.readDatabase(database)).then(onReply, () => {
      this.stallDetector?.settled();
      // The connection failed: the next command tries again.
      if (this.checking === stream) this.checking = undefined;
    });
  }

  private async select(): Promise<WrongDatabaseError | undefined> {
    const database = databaseOf(this.client);
    try {
      await this.client.select(database);
      return undefined;
    } catch (error) {
      if (isErrorReply(error)) return new WrongDatabaseError(database, describeFailure(error));
      throw error;
    }
  }

  private async readDatabase(database: number): Promise<WrongDatabaseError | undefined> {
    try {
      const found = / db=(\d+)/.exec(String(await this.client.client('INFO')))?.[1];
      if (found === undefined || Number(found) === database) return undefined;
      return new WrongDatabaseError(database, `the connection has database ${found}`);
    } catch (error) {
      // The user may not run CLIENT INFO. Selecting the same database again changes nothing, and shows it.
      if (isErrorReply(error)) return this.select();
      throw error;
    }
  }
}

/** The database that each connection of a cluster is to select. */
export function clusterDatabaseOf({ options }: BinaryRedisClient): number {
  const { db = 0 } = (options?.redisOptions ?? {}) as { readonly db?: number };
  return db;
}

/** The database that a client is set to: the last one selected, otherwise that of its options. */
export function databaseOf({ isCluster, condition, options }: BinaryRedisClient): number {
  return isCluster === true ? 0 : (condition?.select ?? options?.db ?? 0);
}
