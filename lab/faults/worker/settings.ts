import type { IdempotencyModuleOptions } from 'nestjs-idempotency';
import type { OwnPoolOptions } from 'nestjs-idempotency/postgres';
import type { OwnConnectionOptions } from 'nestjs-idempotency/redis';
import type { MutantName } from './mutants.js';

/** The module option `service` of all workers. */
export const SERVICE = 'tests';

/** Where the records of a worker are. */
export type StoreSettings =
  | RedisSettings
  | PostgresSettings
  | { readonly kind: 'mysql'; readonly url: string }
  | { readonly kind: 'sqlite'; readonly path: string };

interface PostgresSettings extends Pick<OwnPoolOptions, 'journal'> {
  readonly kind: 'postgres';
  readonly url: string;
}

export type RedisSettings =
  | (StoreExtras & { readonly kind: 'redis'; readonly url: string })
  | (StoreExtras & {
      readonly kind: 'sentinel';
      readonly sentinels: readonly Address[];
      readonly name: string;
    })
  | (StoreExtras & { readonly kind: 'cluster'; readonly nodes: readonly Address[] });

export interface Address {
  readonly host: string;
  readonly port: number;
}

interface StoreExtras {
  /** Further options of `redisStore`; on a cluster, `connection` applies to each node. */
  readonly options?: Omit<OwnConnectionOptions, 'client' | 'url' | 'onConnectionError'>;
}

/** Where the large bodies of a worker are. */
export type BlobSettings =
  | {
      readonly kind: 'file';
      readonly directory: string;
      /** How large a file of the process may become. @defaultValue as large as the disk lets it */
      readonly mostBytes?: number;
    }
  | { readonly kind: 's3'; readonly endpoint: string }
  | { readonly kind: 'postgres'; readonly url: string };

/** What survives JSON of the module's options. */
export type WorkerOptions = Omit<
  IdempotencyModuleOptions,
  'store' | 'unitOfWork' | 'telemetry' | 'secrets' | 'blobs'
>;

/** Keys of encryption, by their ids: every worker makes the same key of an id. */
export interface SecretsSettings {
  readonly current: string;
  readonly known: readonly string[];
  /** Digests are protected by them. */
  readonly digestKeys?: readonly string[];
}

/** All settings of a worker process, as JSON in {@link SETTINGS_VARIABLE}. */
export interface WorkerSettings {
  /** Stands in every line that the process writes: another one for every start. */
  readonly name: string;
  readonly store: StoreSettings;
  readonly options?: WorkerOptions;
  readonly secrets?: SecretsSettings;
  readonly blobs?: BlobSettings;
  /** Whether the effect is a row that is committed together with the record: a PostgreSQL has both. */
  readonly transactional?: boolean;
  /** A mistake that the worker is to make, for the sake of those who have to notice. */
  readonly mutant?: MutantName;
  /** Whether it serves its metrics at /metrics. */
  readonly metrics?: boolean;
  /** What its function `lease.onTakeover` does, if it has one. */
  readonly onTakeover?: 'run' | 'throw';
  readonly ledgerFile: string;
  readonly eventsFile: string;
  /** How long the handler takes until it has its effect, in milliseconds. */
  readonly effectDelayMs?: number;
}

export const SETTINGS_VARIABLE = 'LAB_WORKER';

/** Injection token of the settings. */
export const WORKER_SETTINGS = Symbol('worker settings');

/** The operation's stable name, and the caller that all requests of the laboratory come from. */
export const OPERATION = 'lab.effect';
export const CALLER_HEADER = 'x-lab-caller';
export const MISHAP_HEADER = 'x-lab-mishap';
/** Names the execution that an answer comes from; replayed with it. */
export const EXECUTION_HEADER = 'x-lab-execution';

/** What the process says once it listens, over the channel to its parent. */
export interface ListeningMessage {
  readonly listening: string;
}
