import type { TransactionOptions } from '../../core/transaction/unit-of-work.js';
import { StoreReplyMismatchedError } from '../../core/util/errors.js';
import { beginWithin, TransactionAbortedError, TransactionOverError } from './guarded-handle.js';
import type { PgConnection, PgPool, PgResult } from './pg-pool.js';

/** A connection of the pool's, borrowed for one transaction. */
export class CheckedOutClient {
  private readonly losing = new AbortController();
  /** Why no more statements are taken. */
  private rejection: (() => Error) | undefined;
  /** Whether no transaction is open on it, so that the next borrower may have it. */
  private isClean = true;
  private isReturned = false;

  private constructor(private readonly connection: PgConnection) {
    // While it is on loan nobody else listens, and an error that nobody hears ends the process.
    connection.on('error', this.onLost);
    connection.on('end', this.onLost);
  }

  static from(pool: PgPool): Promise<CheckedOutClient> {
    return new Promise((resolve, reject) => {
      // A connection may break before a promise has been heard of.
      pool.connect((error, connection) => {
        if (connection === undefined) reject(error ?? new Error('The pool has no connection.'));
        else resolve(new CheckedOutClient(connection));
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
    if (this.rejection !== undefined) return rejectQuery(request, this.rejection());
    if (isTransactionControl(textOf(request) ?? '')) {
      return rejectQuery(request, new TransactionControlError());
    }
    return this.connection.query(...(request as Parameters<PgConnection['query']>));
  }

  /**
   * @throws {@link TransactionAbortedError} PostgreSQL rolled back instead.
   * @throws {@link StoreReplyMismatchedError} nobody knows: the reply was another statement's.
   */
  async commit(): Promise<void> {
    if (this.rejection !== undefined) throw this.rejection();
    this.rejection = () => new TransactionOverError();
    const { command } = await this.connection.query('COMMIT');
    this.isClean = isEnd(command);
    if (!this.isClean) throw new StoreReplyMismatchedError('PostgreSQL');
    if (command !== 'COMMIT') throw new TransactionAbortedError();
  }

  /** Never rejects: where it fails, the connection goes, and the transaction with it. */
  async rollBack(): Promise<void> {
    if (this.rejection !== undefined) return;
    this.rejection = () => new TransactionOverError();
    await this.connection.query('ROLLBACK').then(
      ({ command }) => (this.isClean = isEnd(command)),
      () => undefined,
    );
  }

  /** Ends the connection, whatever is running on it. */
  cut(): void {
    this.rejection ??= () => new Error('The connection of the transaction was cut.');
    this.isClean = false;
    this.release();
  }

  /** Ends the connection instead, where a transaction is open on it still. */
  release(): void {
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

/** What may stand between the words of a statement. */
const WHITESPACE = String.raw`(?:\s|--[^\n\r]*(?:[\n\r]|$)|/\*(?:(?!\*/)[^])*\*/)`;

const CONTROL = new RegExp(
  `^(?:${WHITESPACE}|;)*(?:(?:begin|start|commit|end|abort)\\b|prepare${WHITESPACE}+transaction\\b` +
    `|rollback\\b(?!${WHITESPACE}+(?:(?:work|transaction)${WHITESPACE}+)?to\\b))`,
  'i',
);

/** Whether a statement begins or ends a transaction. Savepoints do not. */
function isTransactionControl(text: string): boolean {
  return CONTROL.test(text);
}

/** A handler begins or ends the transaction that is to be committed with the record. */
export class TransactionControlError extends Error {
  override readonly name = 'TransactionControlError';

  constructor() {
    super(
      'The transaction is begun and ended around the handler, so its handle takes no BEGIN, COMMIT or ROLLBACK. A handler has to throw to roll back; within the transaction there are savepoints.',
    );
  }
}

type Listener = (error: Error) => void;

/** What a query is described by: a configuration, or what submits itself, as cursors and streams do. */
interface Described {
  readonly text?: unknown;
  readonly submit?: unknown;
  readonly handleError?: unknown;
  callback?: unknown;
}

/** The statement that `query` of pg is called with, where it can be told. */
function textOf([query]: readonly unknown[]): string | undefined {
  if (typeof query === 'string') return query;
  const { text } = described(query);
  return typeof text === 'string' ? text : undefined;
}

/**
 * What `query` of pg does with an error before it has sent anything: the callback hears of it, or the cursor, or
 * whoever awaits the promise. What was not asked for is not there: a promise that nobody holds would end the process.
 */
function rejectQuery(request: readonly unknown[], error: Error): unknown {
  const query = described(request[0]);
  const callback = callbackOf(request);
  if (typeof query.submit === 'function') {
    query.callback ??= callback;
    const { handleError } = query;
    // Not the connection: it has never been given to it.
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

/** The last of them, as pg has it. */
function callbackOf([, values, callback]: readonly unknown[]): Listener | undefined {
  return [callback, values].find(isListener);
}

function isListener(value: unknown): value is Listener {
  return typeof value === 'function';
}
