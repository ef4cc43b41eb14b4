/** What tests use of `node:sqlite`, without the store. */
export interface Database {
  exec(sql: string): void;
  prepare(sql: string): {
    get(...values: unknown[]): Record<string, any> | undefined;
    all(...values: unknown[]): Record<string, any>[];
    run(...values: unknown[]): unknown;
  };
  close(): void;
}

export interface NodeSqlite {
  readonly DatabaseSync: { readonly prototype: Database; new (path: string): Database };
}

/** `undefined` on a Node that has none. */
export const nodeSqlite = process.getBuiltinModule('node:sqlite') as NodeSqlite | undefined;
