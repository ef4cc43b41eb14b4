import { closeSync, openSync, realpathSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import {
  asError,
  errorTypeOf,
  isIdempotencyError,
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from '../../core/errors/errors.js';
import type { Clock } from '../../core/util/clock.js';
import {
  openDatabase,
  sqliteFailureOf,
  wordsOf,
  type SqliteDatabase,
  type SqliteStatement,
} from './node-sqlite.js';
import { RecordRows } from './record-rows.js';

/** `nidm`: what tells a file of records from any other database. */
const APPLICATION_ID = 0x6e69646d;

/** Append a script, never change one: a file that has run it keeps what it did. `user_version` counts them. */
const MIGRATIONS = [
  // The rows stand in the order in which they are deleted, so that no index has to be written for it: see RecordRows.
  `CREATE TABLE idempotency_records (
    id INTEGER NOT NULL PRIMARY KEY,
    record_key TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    token TEXT NOT NULL,
    fence INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    takeovers INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    lease_until INTEGER,
    lease_ms INTEGER,
    deadline INTEGER,
    origin TEXT,
    note TEXT,
    outcome_header TEXT,
    outcome_body BLOB
  ) STRICT;
  CREATE INDEX idempotency_records_in_progress ON idempotency_records (record_key)
    WHERE state = 'in_progress' AND origin IS NOT NULL;
  CREATE TABLE idempotency_fences (highest_deleted INTEGER NOT NULL) STRICT;
  INSERT INTO idempotency_fences VALUES (0);`,
];

/** SQLite waits in the thread of the event loop: a longer wait is the caller's, who lets other work run meanwhile. */
const BUSY_MS = 10;

const OWNER_ONLY = 0o600;

/** Longer than a tick of the system's clock, within which two changes of a folder give it the same time. */
const SAME_TIME_MS = 100;

interface Connection {
  readonly database: SqliteDatabase;
  readonly begin: SqliteStatement;
  readonly commit: SqliteStatement;
  readonly rows: RecordRows;
  /** The file, and beside what a link leads to the log and its index: steps are in all three. */
  readonly paths: readonly string[];
  /** Of each, by which it is known again: a path may come to name another one. */
  readonly inodes: readonly string[];
  /** What the paths are in. */
  readonly folders: readonly string[];
}

/** Another connection holds the lock of the file: nothing was executed. */
export class FileBusyError extends StoreUnavailableError {}

/** One connection to the file. Whatever it does is over when it returns. */
export class SqliteFile {
  private connection: Connection | undefined;
  /** Of its folders, and since when they have been seen so. */
  private folderTimes = '';
  private unchangedSince = -Infinity;
  private isChecked = false;

  constructor(
    private readonly path: string,
    private readonly synchronous: 'full' | 'normal',
    private readonly clock: Clock,
  ) {}

  /**
   * Runs `work` as one transaction, which has the only right to write from its first statement on.
   * @throws {@link FileBusyError}, or another error of a store, which says whether the work was stored.
   */
  transact<Result>(work: (rows: RecordRows) => Result): Result {
    const { database, begin, commit, rows } = this.opened();
    this.tried(() => {
      begin.run();
    });
    let result: Result;
    try {
      result = work(rows);
    } catch (error) {
      rollBack(database);
      throw this.notExecuted(error);
    }
    try {
      commit.run();
    } catch (error) {
      rollBack(database);
      throw this.unknown(error);
    }
    return result;
  }

  /**
   * Runs `work` without a transaction around it: each of its statements is one of its own.
   * @throws {@link FileBusyError}, or another error of a store, which says whether the last statement was stored.
   */
  runAlone<Result>(work: (rows: RecordRows) => Result): Result {
    const { rows } = this.opened();
    try {
      return work(rows);
    } catch (error) {
      const failure = sqliteFailureOf(error);
      // Whether it came before the commit or with it, the error does not say.
      if (failure === 'full' || failure === 'other') throw this.unknown(error);
      throw this.notExecuted(error);
    }
  }

  close(): void {
    const { connection } = this;
    this.connection = undefined;
    connection?.database.close();
  }

  private get named(): string {
    return `The file of sqliteStore (${this.path})`;
  }

  private opened(): Connection {
    this.connection ??= this.open();
    this.checkFiles(this.connection);
    return this.connection;
  }

  /**
   * A file that is deleted, made or renamed changes its folder: to look at that alone spares a step a tenth of its time.
   * @throws {@link StoreConfigurationError}: records would go to a file that no other process, and not this one after its restart, ever reads.
   */
  private checkFiles({ paths, inodes, folders }: Connection): void {
    const now = this.clock.now();
    const times = folders.map(changeOf).join();
    if (times !== this.folderTimes) {
      this.folderTimes = times;
      this.unchangedSince = now;
      this.isChecked = false;
    }
    if (this.isChecked) return;
    for (const [index, path] of paths.entries()) {
      if (inodeOf(path) === inodes[index]) continue;
      throw new StoreConfigurationError(
        `${this.named} was deleted or replaced while it was open, or what SQLite keeps beside it (-wal, -shm). Stop all processes that use it, put the file back that has the records, with those of the same name and -wal beside it, and start them again.`,
      );
    }
    this.isChecked = now - this.unchangedSince > SAME_TIME_MS;
  }

  private open(): Connection {
    this.create();
    const database = this.tried(() => openDatabase(this.path));
    try {
      this.tried(() => {
        database.exec(`PRAGMA busy_timeout = ${String(BUSY_MS)}`);
        this.checkWhose(database);
        this.useWriteAheadLog(database);
        database.exec(`PRAGMA synchronous = ${this.synchronous}`);
        this.migrate(database);
      });
      const rows = this.tried(() => new RecordRows(database));
      const [begin, commit] = [database.prepare('BEGIN IMMEDIATE'), database.prepare('COMMIT')];
      const target = realpathSync(this.path);
      const paths = [this.path, `${target}-wal`, `${target}-shm`];
      const folders = [...new Set(paths.map((path) => dirname(path)))];
      return { database, begin, commit, rows, paths, inodes: paths.map(inodeOf), folders };
    } catch (error) {
      database.close();
      throw error;
    }
  }

  /** SQLite would create it readable for other users. One that is there is not opened here: to close it would end SQLite's locks. */
  private create(): void {
    try {
      closeSync(openSync(this.path, 'wx', OWNER_ONLY));
    } catch (error) {
      const type = errorTypeOf(error) ?? 'unknown';
      if (type === 'EEXIST') {
        this.checkKind();
        return;
      }
      if (type === 'ENOSPC') throw this.notExecuted(error);
      throw new StoreConfigurationError(
        `${this.named} cannot be created: ${type}. Its folder must exist, and the user of the process must have the right to write in it. If it is on a volume, mount that first.`,
        { cause: error },
      );
    }
  }

  /** SQLite fails later for what is no file, as if that could pass, and makes the missing target of a link readable for all. */
  private checkKind(): void {
    if (statSync(this.path, { throwIfNoEntry: false })?.isFile() === true) return;
    throw new StoreConfigurationError(
      `${this.named} is a folder, a device, a pipe or a link to no file: it was not changed. Set path to a file, or to one that does not exist yet. If the link leads to a volume, mount that first.`,
    );
  }

  /** @throws {@link StoreConfigurationError} for a file that it must not write to. Nothing of it has been changed by then. */
  private checkWhose(database: SqliteDatabase): number {
    const id = numberFrom(database, 'PRAGMA application_id');
    const version = numberFrom(database, 'PRAGMA user_version');
    const tables = numberFrom(database, 'SELECT count(*) FROM sqlite_master');
    if (id !== APPLICATION_ID && (id !== 0 || version !== 0 || tables !== 0)) {
      throw new StoreConfigurationError(
        `${this.named} is a database of another program: it was not changed. Records have a file of their own. Set path to one that does not exist yet.`,
      );
    }
    if (version > MIGRATIONS.length) {
      throw new StoreConfigurationError(
        `${this.named} was written by a newer version of nestjs-idempotency: its schema is ${String(version)}, and this version knows ${String(MIGRATIONS.length)}. It was not changed. Install that version again.`,
      );
    }
    return version;
  }

  private useWriteAheadLog(database: SqliteDatabase): void {
    const mode = database.prepare('PRAGMA journal_mode = WAL').get()?.journal_mode;
    if (mode === 'wal') return;
    throw new StoreConfigurationError(
      `${this.named} is on a file system without shared memory between processes, which SQLite needs for its write-ahead log (journal_mode is ${String(mode)}). Put it on a local disk.`,
    );
  }

  /** Of processes that start together, one does it; the others find it done. */
  private migrate(database: SqliteDatabase): void {
    database.exec('BEGIN IMMEDIATE');
    try {
      const version = this.checkWhose(database);
      for (const script of MIGRATIONS.slice(version)) database.exec(script);
      if (version < MIGRATIONS.length) {
        database.exec(`PRAGMA application_id = ${String(APPLICATION_ID)}`);
        database.exec(`PRAGMA user_version = ${String(MIGRATIONS.length)}`);
      }
      database.exec('COMMIT');
    } catch (error) {
      rollBack(database);
      throw error;
    }
  }

  private tried<Result>(work: () => Result): Result {
    try {
      return work();
    } catch (error) {
      throw this.notExecuted(error);
    }
  }

  /** It may have reached the disk: then the next process that opens the file finds it. */
  private unknown(error: unknown): StoreOutcomeUnknownError {
    return new StoreOutcomeUnknownError(
      `${this.named} could not say whether it stored a step: ${wordsOf(error)}.`,
      { cause: error, isRejection: sqliteFailureOf(error) === 'full' },
    );
  }

  private notExecuted(error: unknown): Error {
    if (isIdempotencyError(error)) return error;
    const cause = { cause: error };
    const words = wordsOf(error);
    switch (sqliteFailureOf(error)) {
      case 'busy':
        return new FileBusyError(`${this.named} is locked by another process.`, cause);
      case 'full':
        return new StoreUnavailableError(
          `${this.named} is on a full disk: nothing of the step was stored. Free space; expired records are deleted, and their space is used again.`,
          { ...cause, isRejection: true },
        );
      case 'tooBig':
        return new StoreUnavailableError(
          `${this.named} does not store an outcome of this size: ${words}. Set outcome.maxBytes, or give large outcomes a blob store.`,
          { ...cause, isRejection: true },
        );
      case 'unusable':
        return new StoreConfigurationError(
          `${this.named} cannot be used: ${words}. It must be a file of this store, intact, which the user of the process may read and write, as its folder.`,
          cause,
        );
      case 'other':
        return new StoreUnavailableError(`${this.named} failed: ${words}.`, cause);
      default:
        return errorTypeOf(error) === 'ENOSPC'
          ? new StoreUnavailableError(`${this.named} is on a full disk.`, {
              ...cause,
              isRejection: true,
            })
          : asError(error);
    }
  }
}

/** SQLite ends the transaction itself after some errors: then there is none to roll back. */
function rollBack(database: SqliteDatabase): void {
  try {
    database.exec('ROLLBACK');
  } catch (error) {
    if (sqliteFailureOf(error) === undefined) throw error;
  }
}

function numberFrom(database: SqliteDatabase, query: string): number {
  return Number(Object.values(database.prepare(query).get() ?? {})[0]);
}

function inodeOf(path: string): string {
  const { dev, ino } = statSync(path, { throwIfNoEntry: false }) ?? {};
  return `${String(dev)} ${String(ino)}`;
}

/** Of a folder: not the time of its last modification, which a copy may set back. */
function changeOf(path: string): string {
  const { dev, ino, ctimeMs } = statSync(path, { throwIfNoEntry: false }) ?? {};
  return `${String(dev)} ${String(ino)} ${String(ctimeMs)}`;
}
