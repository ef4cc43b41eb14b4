/** A preference and what belongs to it; a comma in a quoted string ends nothing. Never backtracks. */
const PREFERENCE = /(?:[^,"]|"(?:[^"\\]|\\.?)*(?:"|$))+/g;

/** `wait` with its value in seconds, which may be quoted, and any parameters. */
const WAIT = /^\s*wait\s*=\s*(?:(\d+)|"(\d+)")\s*(?:;|$)/i;

const IS_WAIT = /^\s*wait\s*(?:[=;]|$)/i;

/**
 * How long the caller is prepared to wait, by `Prefer: wait=N` (RFC 7240 §4.3), N in seconds. Only the first
 * `wait` counts, and one that is malformed counts as none (§2).
 *
 * @param lines - of the field `Prefer`.
 * @returns milliseconds, or `undefined` where the caller says nothing of it.
 */
export function preferredWaitMs(lines: readonly string[]): number | undefined {
  if (lines.length === 0) return undefined;
  const wait = lines
    .join(',')
    .match(PREFERENCE)
    ?.find((preference) => IS_WAIT.test(preference));
  const [, bare, quoted] = WAIT.exec(wait ?? '') ?? [];
  const seconds = bare ?? quoted;
  return seconds === undefined ? undefined : Number(seconds) * 1_000;
}
