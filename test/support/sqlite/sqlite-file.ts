import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe } from '@jest/globals';
import { SqliteIdempotencyStore, type SqliteStoreOptions } from 'nestjs-idempotency/sqlite';
import { nodeClock, type Clock } from '../internals/core.js';
import { nodeSqlite, type Database } from './node-sqlite.js';

export const hasSqlite = nodeSqlite !== undefined;

/** On a Node without SQLite its tests are reported as skipped; `newer-node.all.test.ts` then runs them on another one. */
export const describeSqlite: typeof describe.skip = hasSqlite ? describe : describe.skip;

/** A folder of its own for each file of records. */
export class SqliteFolder {
  readonly folder = mkdtempSync(join(tmpdir(), 'idempotency-sqlite-'));
  readonly path = join(this.folder, 'records.db');

  /** @param clock - with the time of the store. */
  open(
    options: Partial<SqliteStoreOptions> = {},
    clock: Clock = nodeClock,
  ): SqliteIdempotencyStore {
    // A test's own disk need not survive the machine.
    return new SqliteIdempotencyStore(
      { path: this.path, synchronous: 'normal', ...options },
      clock,
    );
  }

  /** Opens the file, without the store. */
  database(): Database {
    return new nodeSqlite!.DatabaseSync(this.path);
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Node's clock, but for the time of day, which the test sets, and what it goes ahead. */
export class SetClock {
  nowMs = 1_900_000_000_000;
  aheadMs = 0;
  readonly clock: Clock = Object.assign(Object.create(nodeClock) as Clock, {
    wallTime: () => this.nowMs,
    now: () => nodeClock.now() + this.aheadMs,
  });
}
