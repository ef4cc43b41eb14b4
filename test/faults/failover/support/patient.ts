/** A failover takes seconds, and twice as long on a busy machine. */
export const PATIENT = { commandTimeoutMs: 15_000, saveTimeoutMs: 15_000 };

/** Servers that have to agree take their time on a busy machine. */
export const FAILOVER_TEST_MS = 60_000;
