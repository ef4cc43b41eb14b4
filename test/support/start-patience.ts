/** How long a server may take until it serves, on a machine that has other things to do. */
export const START_MS = 150_000;

/** What a hook that starts a server gives as its limit: longer, so that a failure says which server it was, and why. */
export const START_HOOK_MS = START_MS + 30_000;
