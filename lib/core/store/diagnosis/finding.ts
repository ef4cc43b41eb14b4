import { asError, hasCode } from '../../errors/errors.js';
import type { StoreWarning } from '../../record/store-warning.js';

/** Whether there is something to do: to look at, or at once. */
export type Verdict = 'ok' | 'warning' | 'error';

/** What one check of a store found. */
export interface Finding {
  /** A word that names the check. */
  readonly check: string;
  readonly verdict: Verdict;
  /** What was found and, unless it is ok, what to do. */
  readonly message: string;
}

export function ok(check: string, message: string): Finding {
  return { check, verdict: 'ok', message };
}

export function warning(check: string, message: string): Finding {
  return { check, verdict: 'warning', message };
}

export function error(check: string, message: string): Finding {
  return { check, verdict: 'error', message };
}

/**
 * What a store says of its failure.
 * @throws it, if an option is invalid: no server has said that.
 */
export function messageOf(failure: unknown): string {
  if (hasCode(failure, 'idempotency_options_invalid')) throw failure;
  return asError(failure).message;
}

export type Place = readonly [check: string, verdict: Verdict];

/** The warnings of a store's start as findings; an unknown one is about the configuration. */
export function findingsOf(
  warnings: readonly StoreWarning[],
  places: Readonly<Record<string, Place>>,
): Finding[] {
  return warnings.map(({ code, message }) => {
    const [check, verdict] = places[code] ?? (['configuration', 'warning'] as const);
    return { check, verdict, message };
  });
}

/** `found`, or that the check is ok if nothing was found. */
export function orOk(found: readonly Finding[], check: string, message: string): Finding[] {
  const own = found.filter((finding) => finding.check === check);
  return own.length > 0 ? own : [ok(check, message)];
}
