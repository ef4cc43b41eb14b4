/** The duration of a worker's lock on a job: longer than any step of the test. */
export const LOCK_MS = 90_000;

/** The settings of a worker process. */
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

/** What a worker process prints: one line of JSON per message. */
export type WorkerMessage =
  | { readonly said: 'ready' }
  | {
      readonly said: 'begun';
      readonly id: string;
      readonly attempt: number;
      readonly isTakeover: boolean;
    };
