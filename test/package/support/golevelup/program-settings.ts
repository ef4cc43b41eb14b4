/** The settings of a process that runs program.ts. */
export interface ProgramSettings {
  readonly brokerUrl: string;
  readonly redisUrl: string;
  readonly onTakeover: 'run' | 'reject';
  /** The order whose charge takes until there is a line on the standard input. */
  readonly holdsAt: string;
}

/** What it prints: one line of JSON per message. */
export type ProgramMessage =
  | { readonly said: 'ready' }
  | {
      /** The bank was called. */
      readonly said: 'charged' | 'failed';
      readonly id: string;
      readonly idempotencyKey: string;
      /** None where nothing protects the method. */
      readonly attempt?: number;
      readonly isTakeover?: boolean;
    }
  | { readonly said: 'returned a Nack'; readonly id: string };
