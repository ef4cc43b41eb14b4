/** How long a server may take until it serves, on a busy machine. */
export const START_MS = 150_000;

/** The timeout of a hook that starts a server: longer, so that a failure names the server and the reason. */
export const START_HOOK_MS = START_MS + 30_000;
