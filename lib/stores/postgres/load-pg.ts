import { missingPeer } from '../../core/util/missing-peer.js';
import type { PostgresPool, PostgresQuery, PostgresResult } from './postgres-client.js';

/** A pool that the store opened. */
export interface OwnPool extends PostgresPool {
  on(event: 'error', listener: (error: Error) => void): unknown;
  end(): Promise<void>;
}

/** A connection that the store opened outside of any pool. */
export interface OwnClient {
  connect(): Promise<unknown>;
  query(query: PostgresQuery): Promise<PostgresResult>;
  end(): Promise<void>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  on(event: 'notification', listener: (message: { payload?: string }) => void): unknown;
}

/** What is used of pg. */
export interface Pg {
  readonly Pool: new (settings: object) => OwnPool;
  readonly Client: new (settings: object) => OwnClient;
}

/** @throws {@link IdempotencyOptionsError} when pg is not installed. */
export async function loadPg(): Promise<Pg> {
  try {
    const module: object = await import('pg');
    // Which of its parts an ES module sees by name depends on its version.
    return ('Pool' in module ? module : (module as { readonly default: unknown }).default) as Pg;
  } catch (error) {
    throw missingPeer(error, 'pg', 'postgresStore opens its connections with');
  }
}
