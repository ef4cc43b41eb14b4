/** How long a worker's lock on a job is good for: longer than anything in here takes. */
export const LOCK_MS = 90_000;

/** What a worker process is told. */
export interface WorkerSettings {
  readonly name: string;
  readonly redisPort: number;
  readonly queue: string;
  readonly leaseMs: number;
}

export interface HeldOrder {
  readonly id: string;
  /** The worker that never finishes it. */
  readonly heldBy?: string;
}

/** What it tells, a line of JSON each. */
export type WorkerMessage =
  | { readonly said: 'ready' }
  | {
      readonly said: 'begun';
      readonly id: string;
      readonly attempt: number;
      readonly isTakeover: boolean;
    };
