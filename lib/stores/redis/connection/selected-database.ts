import { nodeClock } from '../../../core/util/clock.js';
import type { BinaryRedisClient } from './client-types.js';
import { describeFailure, isErrorReply, WrongDatabaseError } from './error-classification.js';
import type { StallDetector } from './stall-detector.js';

/** How soon to ask again after a rejection: the user may have been granted the database meanwhile. */
const RECHECK_MS = 1_000;

/** Verifies the database: ioredis continues in database 0 when the server rejects another, also after a reconnect. */
export class SelectedDatabase {
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

  /** Whether commands may be sent over the current connection. Starts the check if it is still to be made. */
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

/** The database that a client is set to: the last one selected, otherwise that of its options. */
export function databaseOf({ isCluster, condition, options }: BinaryRedisClient): number {
  return isCluster === true ? 0 : (condition?.select ?? options?.db ?? 0);
}
