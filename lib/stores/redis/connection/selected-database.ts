import { monotonicNow } from '../../../core/util/time.js';
import type { BinaryRedisClient } from './client-types.js';
import { describeFailure, isErrorReply, WrongDatabaseError } from './error-classification.js';
import type { StallDetector } from './stall-detector.js';

/** A connection that was refused its database is asked again: its user may have been allowed it meanwhile. */
const ASK_AGAIN_MS = 1_000;

/**
 * Whether a connection has the database that its client names. ioredis goes on in database 0 when the server refuses the
 * one that was asked for, at the start and after each reconnect.
 */
export class SelectedDatabase {
  private verified: object | undefined;
  private asked: object | undefined;
  private askAgainAt = Infinity;
  private rejection: WrongDatabaseError | undefined;

  /** @param isOwn - the store may select on it; a client of the application is asked first which database it has. */
  constructor(
    private readonly client: BinaryRedisClient,
    private readonly isOwn: boolean,
    private readonly stallDetector?: StallDetector,
  ) {}

  /** Whether something may be sent over the connection as it is now. Looks for it where that is not known yet. */
  get isVerified(): boolean {
    const { client } = this;
    const database = databaseOf(client);
    if (database === 0) return true;
    if (client.status === 'wait') {
      // The command fails of the same when it is tried again, and says so.
      client.connect().catch(() => undefined);
      return false;
    }
    const { stream } = client;
    if (stream === undefined || stream === this.verified) return stream !== undefined;
    if (stream !== this.asked || monotonicNow() >= this.askAgainAt) this.ask(stream, database);
    return false;
  }

  /** Why it never will be with this set-up. */
  get error(): Error | undefined {
    return this.rejection;
  }

  private ask(stream: object, database: number): void {
    if (stream !== this.asked) this.rejection = undefined;
    this.asked = stream;
    this.askAgainAt = Infinity;
    this.stallDetector?.sent();
    const onReply = (rejection?: WrongDatabaseError) => {
      this.stallDetector?.settled();
      if (this.asked !== stream) return;
      this.rejection = rejection;
      if (rejection === undefined) this.verified = stream;
      else this.askAgainAt = monotonicNow() + ASK_AGAIN_MS;
    };
    (this.isOwn ? this.select() : this.readDatabase(database)).then(onReply, () => {
      this.stallDetector?.settled();
      // The connection broke, or nothing came of it: the next command tries again.
      if (this.asked === stream) this.asked = undefined;
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
      // This user may not ask. To select what the client has selected itself changes nothing, and tells as well.
      if (isErrorReply(error)) return this.select();
      throw error;
    }
  }
}

/** The database that a client means to have: what was selected on it last counts before what it was made with. */
export function databaseOf({ isCluster, condition, options }: BinaryRedisClient): number {
  return isCluster === true ? 0 : (condition?.select ?? options?.db ?? 0);
}
