import { TransactionAbortedError, TransactionOverError } from '../../core/transaction-errors.js';
import type { TransactionOptions } from '../../core/transaction/unit-of-work.js';
import { StoreReplyMismatchedError } from '../../core/util/errors.js';
import { beginWithin } from './begin-within.js';
import type { PgConnection, PgPool, PgResult } from './pg-pool.js';
import { refuseQuery, textOf } from './refused-query.js';
import { isTransactionControl, TransactionControlError } from './transaction-control.js';

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

  /** @throws whatever the connection throws, or that there was no answer in time: then it is cut. */
  async begin({ isolation, timeoutMs }: TransactionOptions): Promise<void> {
    this.isClean = false;
    const level = isolation === undefined ? '' : ` ISOLATION LEVEL ${isolation}`;
    await beginWithin(timeoutMs, this.connection.query(`BEGIN${level}`), () => this.cut());
  }

  /** The connection's own `query`, in whichever form it is called, until the transaction ends. */
  query(text: string, values: unknown[]): Promise<PgResult>;
  query(...request: unknown[]): unknown;
  query(...request: unknown[]): unknown {
    if (this.refusal !== undefined) return refuseQuery(request, this.refusal());
    if (isTransactionControl(textOf(request) ?? '')) {
      return refuseQuery(request, new TransactionControlError());
    }
    return this.connection.query(...(request as Parameters<PgConnection['query']>));
  }

  /**
   * @throws {@link TransactionAbortedError} PostgreSQL rolled back instead.
   * @throws {@link StoreReplyMismatchedError} nobody knows: the reply was another statement's.
   */
  async commit(): Promise<void> {
    if (this.refusal !== undefined) throw this.refusal();
    this.refusal = () => new TransactionOverError();
    const { command } = await this.connection.query('COMMIT');
    this.isClean = isEnd(command);
    if (!this.isClean) throw new StoreReplyMismatchedError('PostgreSQL');
    if (command !== 'COMMIT') throw new TransactionAbortedError();
  }

  /** Never rejects: where it fails, the connection goes, and the transaction with it. */
  async rollBack(): Promise<void> {
    if (this.refusal !== undefined) return;
    this.refusal = () => new TransactionOverError();
    await this.connection.query('ROLLBACK').then(
      ({ command }) => (this.isClean = isEnd(command)),
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

/** Any other reply is another statement's: whoever borrows the connection next would be given this transaction's. */
function isEnd(command: string): boolean {
  return command === 'COMMIT' || command === 'ROLLBACK';
}
