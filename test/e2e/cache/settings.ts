/** What a process of this test is told. */
export interface ProcessSettings {
  readonly redisUrl: string;
  /** Where effects go, a line each: the key. */
  readonly ledger: string;
}
