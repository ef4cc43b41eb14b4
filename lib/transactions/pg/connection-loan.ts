import { TransactionAbortedError, TransactionOverError } from '../../core/transaction-errors.js';
import type { IsolationLevel } from '../../core/unit-of-work.js';
import type { PgConnection, PgPool, PgResult } from './pg-pool.js';

/** A connection of the pool's, borrowed for one transaction. */
export class ConnectionLoan {
  private readonly losing = new AbortController();
  /** Why no more statements are taken. */
  private refusal: (() => Error) | undefined;
  /** Whether no transaction is open on it, so that the next borrower may have it. */
  private isClean = true;
  private isReturned = false;

  private constructor(private readonly connection: PgConnection) {
    // While it is on loan nobody else listens, and an error that nobody hears ends the process.
    connection.on('error', this.onLost);
    connection.on('end', this.onLost);
  }

  static from(pool: PgPool): Promise<ConnectionLoan> {
    return new Promise((resolve, reject) => {
      // A connection may break before a promise has been heard of.
      pool.connect((error, connection) => {
        if (connection === undefined) reject(error ?? new Error('The pool has no connection.'));
        else resolve(new ConnectionLoan(connection));
      });
    });
  }

  /** Aborted when the connection is lost. */
  get lost(): AbortSignal {
    return this.losing.signal;
  }

  async begin(isolation: IsolationLevel | undefined): Promise<void> {
    this.isClean = false;
    const level = isolation === undefined ? '' : ` ISOLATION LEVEL ${isolation}`;
    await this.connection.query(`BEGIN${level}`);
  }

  /** The connection's own `query`, in whichever form it is called, until the transaction ends. */
  query(...request: unknown[]): Promise<PgResult> {
    if (this.refusal !== undefined) return Promise.reject(this.refusal());
    return this.connection.query(...(request as Parameters<PgConnection['query']>));
  }

  /** @throws {@link TransactionAbortedError} PostgreSQL rolled back instead. */
  async commit(): Promise<void> {
    if (this.refusal !== undefined) throw this.refusal();
    this.refusal = () => new TransactionOverError();
    const { command } = await this.connection.query('COMMIT');
    this.isClean = true;
    if (command !== 'COMMIT') throw new TransactionAbortedError();
  }

  /** Never rejects: where it fails, the connection goes, and the transaction with it. */
  async rollBack(): Promise<void> {
    if (this.refusal !== undefined) return;
    this.refusal = () => new TransactionOverError();
    await this.connection.query('ROLLBACK').then(
      () => (this.isClean = true),
      () => undefined,
    );
  }

  /** Ends the connection, whatever is running on it. */
  cut(): void {
    this.refusal ??= () => new Error('The connection of the transaction was cut.');
    this.isClean = false;
    this.giveBack();
  }

  /** Ends the connection instead, where a transaction is open on it still. */
  giveBack(): void {
    if (this.isReturned) return;
    this.isReturned = true;
    this.connection.release(!this.isClean || this.lost.aborted);
    this.connection.off('error', this.onLost);
    this.connection.off('end', this.onLost);
  }

  private readonly onLost = () => this.losing.abort();
}
