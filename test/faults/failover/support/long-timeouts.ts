/** A failover takes seconds, and twice as long on a busy machine. */
export const LONG_TIMEOUTS = { storeErrors: { commandTimeout: 15_000, saveTimeout: 15_000 } };

/** Servers take long to agree on a busy machine. */
export const FAILOVER_TEST_MS = 60_000;
