import { checkInteger } from './option-checks.js';
import { switchedSettings } from './switched-settings.js';

/** How the reconciler looks for records that were left behind. */
export interface ReconcileOptions {
  /**
   * Milliseconds from the end of one round to the next, up to half of them left out at random so that the
   * processes do not come all at once. 100 to 86 400 000.
   * @defaultValue 60_000
   */
  readonly intervalMs?: number;
  /**
   * How many records one round looks at, about: a page of Redis' SCAN that is under way is finished. The next
   * round goes on where this one ended. 1 to 10 000.
   * @defaultValue 100
   */
  readonly batchSize?: number;
  /**
   * Milliseconds that a lease has been over before its record counts as left behind: until then the client's own
   * repetition may come, which gets the whole answer. 0 to 86 400 000.
   * @defaultValue 300_000
   */
  readonly afterMs?: number;
}

/** {@link ReconcileOptions} with every default filled in. */
export type ResolvedReconcileOptions = Required<ReconcileOptions>;

/** The defaults of {@link ReconcileOptions}. */
export const RECONCILE_DEFAULTS: ResolvedReconcileOptions = Object.freeze({
  intervalMs: 60_000,
  batchSize: 100,
  afterMs: 300_000,
});

const DAY_MS = 86_400_000;

/**
 * @returns `undefined` where nothing is to happen by itself.
 * @throws {@link IdempotencyOptionsError} naming option, range and value.
 */
export function resolveReconcileOptions(
  reconcile: boolean | ReconcileOptions | undefined,
): ResolvedReconcileOptions | undefined {
  const resolved = switchedSettings('reconcile', reconcile, RECONCILE_DEFAULTS);
  if (resolved === undefined) return undefined;
  checkInteger('reconcile.intervalMs', resolved.intervalMs, 100, DAY_MS);
  checkInteger('reconcile.batchSize', resolved.batchSize, 1, 10_000);
  checkInteger('reconcile.afterMs', resolved.afterMs, 0, DAY_MS);
  return Object.freeze(resolved);
}
