/** The settings of a process that runs program.ts. */
export interface ProgramSettings {
  readonly brokerUrl: string;
  readonly redisUrl: string;
  readonly leaseMs: number;
  /** The orders whose charge this process never finishes. */
  readonly hangsAt: string;
}

/** What it prints: one line of JSON per message. */
export type ProgramMessage =
  | { readonly said: 'ready' }
  | {
      /** The bank was called. */
      readonly said: 'charged' | 'refused';
      readonly id: string;
      readonly amount: number;
      readonly idempotencyKey: string;
      readonly attempt: number;
      readonly isTakeover: boolean;
    }
  | { readonly said: 'returned a Nack'; readonly id: string };
