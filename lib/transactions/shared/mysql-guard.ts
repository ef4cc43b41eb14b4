import { EventEmitter } from 'node:events';
import type { TransactionOptions } from '../../core/transaction/unit-of-work.js';
import { asError, IdempotencyOptionsError } from '../../core/errors/errors.js';
import { isTransactionControl } from './checked-out-client.js';
import {
  guardHandle,
  TransactionAbortedError,
  TransactionControlError,
  TransactionOverError,
} from './guarded-handle.js';
import type { MysqlConnection, MysqlValue } from './mysql-connections.js';
import type { MysqlTransaction } from './mysql-transaction.js';
import { isMysqlConflict } from './mysql-unit-of-work.js';

/**
 * What a connection may send during a transaction that a library opens. After a deadlock the server has rolled all back,
 * and would commit each further statement by itself; after a lock wait timeout only the statement is undone, and a commit
 * would keep half of the work. Libraries do not look.
 */
export class MysqlGuard {
  private conflict: unknown;
  private isAborted = false;
  private isWorkDone = false;

  /** @returns why this statement must not be sent, if it must not. */
  refusal(sql: string): Error | undefined {
    const isControl = isTransactionControl(sql);
    if (this.isWorkDone) return isControl ? undefined : new TransactionOverError();
    // Some libraries roll back by themselves after a deadlock.
    if (this.isAborted) return isRollback(sql) ? undefined : this.aborted();
    return isControl ? new TransactionControlError() : undefined;
  }

  /** To be called with each error of a statement. */
  note(error: unknown, isConflict = isMysqlConflict(error)): void {
    if (this.isAborted || !isConflict) return;
    this.isAborted = true;
    this.conflict = error;
  }

  /** @throws {@link TransactionAbortedError} there was a conflict. */
  throwIfAborted(): void {
    if (this.isAborted) throw this.aborted();
  }

  /** From now on, only COMMIT and ROLLBACK are sent. */
  end(): void {
    this.isWorkDone = true;
  }

  get isOver(): boolean {
    return this.isWorkDone;
  }

  /** Whether the library may end the transaction now, on its own. */
  get mayRollBack(): boolean {
    return this.isAborted;
  }

  /** Whether the transaction is over with the reply to this statement. */
  isEnd(sql: string): boolean {
    return (this.isWorkDone && isTransactionControl(sql)) || (this.isAborted && isRollback(sql));
  }

  private aborted(): TransactionAbortedError {
    return new TransactionAbortedError({ cause: this.conflict });
  }
}

const ROLLBACK = /^\s*rollback\b(?!\s+(?:work\s+)?to\b)/i;

function isRollback(sql: string): boolean {
  return ROLLBACK.test(sql);
}

/** A connection of a library that a {@link MysqlGuard} watches. */
export interface GuardedSession {
  readonly guard: MysqlGuard;
  /** For the statements of the store, which the library neither logs nor converts. */
  execute(sql: string, values: readonly MysqlValue[]): Promise<readonly object[]>;
  /** Gives the connection its own methods back, if the reply to COMMIT or ROLLBACK has not. */
  readonly restore: () => void;
}

/** What a library has opened. */
export interface OpenedOnMysql<Handle> extends Omit<MysqlTransaction<Handle>, 'execute'> {
  readonly session: GuardedSession;
  /** The methods of the handle that would end the transaction. */
  readonly endings?: readonly (string | symbol)[];
}

/**
 * Calls `work` in a transaction of a library on MySQL or MariaDB. Rejects statements on its connection after a conflict,
 * and once `work` is done, until the library has committed or rolled back.
 *
 * @param last - runs after `work`, when its writes still pass.
 * @throws {@link TransactionAbortedError} there was a conflict, which the work has caught.
 */
export async function runGuardedOnMysql<Handle extends object, Result>(
  { session, endings = [], ...opened }: OpenedOnMysql<Handle>,
  work: (transaction: MysqlTransaction<Handle>) => Promise<Result>,
  last?: () => Promise<unknown>,
): Promise<Result> {
  const { guard } = session;
  const handle = guardHandle(opened.handle, {
    isOver: () => guard.isOver,
    ends: (method) => endings.includes(method) && !guard.mayRollBack,
  });
  const execute: MysqlTransaction['execute'] = async (sql, values = []) => {
    if (guard.isOver) throw new TransactionOverError();
    guard.throwIfAborted();
    try {
      return await session.execute(sql, values);
    } catch (error) {
      guard.note(error);
      throw error;
    }
  };
  try {
    const result = await work({ ...opened, handle, execute });
    await last?.();
    guard.throwIfAborted();
    return result;
  } finally {
    guard.end();
  }
}

/**
 * Gives a connection its own methods back once the library has ended the transaction, however that went.
 * @param transact - opens the transaction, and calls its argument with the session.
 */
export async function restoringSession<Result>(
  transact: (kept: (session: GuardedSession) => GuardedSession) => Promise<Result>,
): Promise<Result> {
  let opened: GuardedSession | undefined;
  try {
    return await transact((session) => (opened = session));
  } finally {
    opened?.restore();
  }
}

type Callback = (error: unknown, ...rest: unknown[]) => void;
type Send = (...request: unknown[]) => unknown;

/**
 * Watches a connection of mysql2 that a library has checked out, until COMMIT or ROLLBACK is replied to: with that reply
 * the library may lend it to another transaction.
 */
export function guardMysql2(connection: MysqlConnection): GuardedSession {
  const guard = new MysqlGuard();
  const methods = connection as unknown as Record<'query' | 'execute', Send>;
  const original = { query: methods.query, execute: methods.execute };
  const restores: (() => void)[] = [];
  const restore = () => {
    for (const giveBack of restores.splice(0)) giveBack();
  };
  const guarded = (send: Send, request: unknown[]): unknown => {
    const sql = textOf(request[0]);
    const callback = request.find(isCallback);
    const refusal = guard.refusal(sql);
    if (refusal !== undefined) return refuse(refusal, callback);
    if (callback === undefined) {
      const command = send.apply(connection, request);
      if (command instanceof EventEmitter) command.prependListener('error', (e) => guard.note(e));
      return command;
    }
    const replied: Callback = (error, ...rest) => {
      if (error !== null && error !== undefined) guard.note(error);
      if (guard.isEnd(sql)) restore();
      callback(error, ...rest);
    };
    const answered = request.map((one) => (one === callback ? replied : one));
    return send.apply(connection, answered);
  };
  for (const name of ['query', 'execute'] as const) {
    restores.push(replace(methods, name, (...request) => guarded(original[name], request)));
  }
  const execute: GuardedSession['execute'] = (sql, values) =>
    new Promise((resolve, reject) => {
      // MySQL prepares no SAVEPOINT.
      const send = values.length === 0 ? original.query : original.execute;
      const query = {
        sql,
        values,
        rowsAsArray: false,
        nestTables: false,
        namedPlaceholders: false,
      };
      send.call(connection, query, (error: unknown, result: unknown) => {
        if (error !== null && error !== undefined) reject(asError(error));
        else resolve(Array.isArray(result) ? (result as object[]) : []);
      });
    });
  return { guard, execute, restore };
}

/** Replaces a method of one object, also where its class has it. @returns what gives it back. */
export function replace<Target extends object, Name extends keyof Target & string>(
  target: Target,
  name: Name,
  method: Target[Name],
): () => void {
  const own = Object.getOwnPropertyDescriptor(target, name);
  Object.defineProperty(target, name, { value: method, configurable: true, writable: true });
  return () => {
    if (own === undefined) Reflect.deleteProperty(target, name);
    else Object.defineProperty(target, name, own);
  };
}

function isCallback(value: unknown): value is Callback {
  return typeof value === 'function';
}

/** The text of a statement, which may stand in an object. */
export function textOf(query: unknown): string {
  if (typeof query === 'string') return query;
  const sql = typeof query === 'object' && query !== null && 'sql' in query ? query.sql : '';
  return typeof sql === 'string' ? sql : '';
}

/** As mysql2 does: to the callback, or by the event of a command. */
function refuse(error: Error, callback: Callback | undefined): EventEmitter {
  const command = new EventEmitter();
  process.nextTick(() => {
    if (callback === undefined) command.emit('error', error);
    else callback(error);
  });
  return command;
}

/** @throws {@link IdempotencyOptionsError} the level is none for MySQL. */
export function throwIfSerializable(name: string, { isolation }: TransactionOptions): void {
  if (isolation !== 'serializable') return;
  throw new IdempotencyOptionsError(
    `${name}: the isolation "serializable" locks the record when it is read, and duplicates would wait for the transaction: choose "repeatable read" or "read committed".`,
  );
}
