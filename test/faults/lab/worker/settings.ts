import type { IdempotencyModuleOptions } from 'nestjs-idempotency';
import type { OwnConnectionOptions } from 'nestjs-idempotency/redis';

/** Where the records of a worker are. */
export type StoreSettings =
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
  /** What else `redisStore` is to be told; on a cluster, `connection` is what each node is reached with. */
  readonly options?: Omit<OwnConnectionOptions, 'client' | 'url' | 'onConnectionError'>;
}

/** What survives JSON of the module's options. */
export type WorkerOptions = Omit<IdempotencyModuleOptions, 'store'>;

/** All that a worker process is told, as JSON in {@link SETTINGS_VARIABLE}. */
export interface WorkerSettings {
  /** Stands in every line that the process writes: another one for every start. */
  readonly name: string;
  readonly store: StoreSettings;
  readonly options?: WorkerOptions;
  readonly ledgerFile: string;
  readonly eventsFile: string;
  /** How long the handler takes until it has its effect, in milliseconds. */
  readonly effectDelayMs?: number;
}

export const SETTINGS_VARIABLE = 'LAB_WORKER';

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
