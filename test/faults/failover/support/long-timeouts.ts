/** A failover takes seconds, and twice as long on a busy machine. */
export const LONG_TIMEOUTS = { storeErrors: { commandTimeoutMs: 15_000, saveTimeoutMs: 15_000 } };

/** Servers take long to agree on a busy machine. */
export const FAILOVER_TEST_MS = 60_000;
