import type { TransactionOptions } from '../../core/transaction/unit-of-work.js';
import { StoreReplyMismatchedError } from '../../core/errors/errors.js';
import { CheckedOutOfPool } from './checked-out.js';
import {
  beginWithin,
  TransactionAbortedError,
  TransactionControlError,
  TransactionOverError,
} from './guarded-handle.js';
import type { PgConnection, PgPool, PgResult } from './pg-pool.js';

/** A connection checked out from the pool for one transaction. */
export class CheckedOutClient extends CheckedOutOfPool {
  private constructor(private readonly connection: PgConnection) {
    super();
    // The pool does not listen to a checked-out connection, and an unhandled error ends the process.
    connection.on('error', this.onLost);
    connection.on('end', this.onLost);
  }

  static from(pool: PgPool): Promise<CheckedOutClient> {
    return new Promise((resolve, reject) => {
      // With a callback: a connection may fail before the continuation of a promise runs.
      pool.connect((error, connection) => {
        if (connection === undefined) reject(error ?? new Error('The pool has no connection.'));
        else resolve(new CheckedOutClient(connection));
      });
    });
  }

  /** @throws the error of the connection, or that no reply arrived in time: then the connection was cut. */
  async begin({ isolation, timeoutMs }: TransactionOptions): Promise<void> {
    this.isClean = false;
    const level = isolation === undefined ? '' : ` ISOLATION LEVEL ${isolation}`;
    await beginWithin(timeoutMs, this.connection.query(`BEGIN${level}`), () => this.cut());
  }

  /** The `query` of the connection, in each of its forms, until the transaction ends. */
  query(text: string, values: unknown[]): Promise<PgResult>;
  query(...request: unknown[]): unknown;
  query(...request: unknown[]): unknown {
    if (this.rejection !== undefined) return rejectQuery(request, this.rejection());
    if (isTransactionControl(textOf(request) ?? '')) {
      return rejectQuery(request, new TransactionControlError());
    }
    return this.connection.query(...(request as Parameters<PgConnection['query']>));
  }

  /**
   * @throws {@link TransactionAbortedError} PostgreSQL rolled back instead.
   * @throws {@link StoreReplyMismatchedError} unknown outcome: the reply belonged to another statement.
   */
  async commit(): Promise<void> {
    if (this.rejection !== undefined) throw this.rejection();
    this.rejection = () => new TransactionOverError();
    const { command } = await this.connection.query('COMMIT');
    this.isClean = isEnd(command);
    if (!this.isClean) throw new StoreReplyMismatchedError('PostgreSQL');
    if (command !== 'COMMIT') throw new TransactionAbortedError();
  }

  /** Never rejects: if it fails, the connection is closed, and the transaction with it. */
  async rollBack(): Promise<void> {
    if (this.rejection !== undefined) return;
    this.rejection = () => new TransactionOverError();
    await this.connection.query('ROLLBACK').then(
      ({ command }) => (this.isClean = isEnd(command)),
      () => undefined,
    );
  }

  protected override giveBack(mayBeReused: boolean): void {
    this.connection.release(!mayBeReused);
    this.connection.off('error', this.onLost);
    this.connection.off('end', this.onLost);
  }
}

/** Any other reply is another statement's: the next user of the connection would get replies of this transaction. */
function isEnd(command: string): boolean {
  return command === 'COMMIT' || command === 'ROLLBACK';
}

/** White space and comments, and what opens a comment that MySQL or MariaDB executes. */
const WHITESPACE = String.raw`(?:\s|(?:--|#)[^\n\r]*(?:[\n\r]|$)|/\*(?:(?!\*/)[^])*\*/|/\*M?!\d*)`;

const CONTROL = new RegExp(
  `^(?:${WHITESPACE}|;)*(?:(?:begin|start|commit|end|abort)\\b|prepare${WHITESPACE}+transaction\\b` +
    `|rollback\\b(?!${WHITESPACE}+(?:(?:work|transaction)${WHITESPACE}+)?to\\b))`,
  'i',
);

/** Whether a statement begins or ends a transaction. Savepoints do not. */
export function isTransactionControl(text: string): boolean {
  return CONTROL.test(text);
}

type Listener = (error: Error) => void;

/** A query configuration, or an object that submits itself, such as cursors and streams. */
interface Described {
  readonly text?: unknown;
  readonly submit?: unknown;
  readonly handleError?: unknown;
  callback?: unknown;
}

/** The text of the statement, if known. */
function textOf([query]: readonly unknown[]): string | undefined {
  if (typeof query === 'string') return query;
  const { text } = described(query);
  return typeof text === 'string' ? text : undefined;
}

/**
 * Reports an error as `query` of pg does before it sends: to the callback, the cursor, or by the promise. Creates no
 * promise for the other forms: its unhandled rejection would end the process.
 */
function rejectQuery(request: readonly unknown[], error: Error): unknown {
  const query = described(request[0]);
  const callback = callbackOf(request);
  if (typeof query.submit === 'function') {
    query.callback ??= callback;
    const { handleError } = query;
    // Without the connection, which the query was never given.
    if (isListener(handleError)) process.nextTick(() => handleError.call(query, error));
    return query;
  }
  const listener = callback ?? query.callback;
  if (!isListener(listener)) return Promise.reject(error);
  process.nextTick(listener, error);
  return undefined;
}

function described(query: unknown): Described {
  return typeof query === 'object' && query !== null ? query : {};
}

/** The last function, as in pg. */
function callbackOf([, values, callback]: readonly unknown[]): Listener | undefined {
  return [callback, values].find(isListener);
}

function isListener(value: unknown): value is Listener {
  return typeof value === 'function';
}
