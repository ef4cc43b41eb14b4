import { ProviderError } from '../provider/provider-error.js';
import type { LedgerEntry, Refund } from './ledger.js';

/**
 * Rejects an entry that the ledger does not allow. No other write may happen between this check and the write.
 *
 * @param written - the existing entries, at least those of the same operation and the same charge.
 * @throws ProviderError
 */
export function checkEntry(entry: LedgerEntry, written: readonly LedgerEntry[]): void {
  rejectOvertaken(entry, written);
  if (entry.kind === 'refund') rejectTooLarge(entry, written);
}

/**
 * Rejects an attempt that was superseded: a process that was frozen for longer than its lease may resume here,
 * after another one has done its work.
 */
function rejectOvertaken(
  { reference, fencingToken }: LedgerEntry,
  written: readonly LedgerEntry[],
): void {
  const isOvertaken = written.some(
    (other) => other.reference === reference && other.fencingToken > fencingToken,
  );
  if (isOvertaken) throw superseded();
}

export function superseded(): ProviderError {
  return new ProviderError('attempt_superseded', 'A later attempt has moved the money');
}

function rejectTooLarge({ amount, chargeId }: Refund, written: readonly LedgerEntry[]): void {
  const charged = written.find(({ id }) => id === chargeId)?.amount ?? 0;
  const left = charged - refundedOf(chargeId, written);
  if (amount > left) {
    throw new ProviderError('refund_too_large', `Only ${left} can be refunded`);
  }
}

/** The refunded amount of a charge. */
export function refundedOf(chargeId: string, written: readonly LedgerEntry[]): number {
  return written
    .filter((entry) => entry.kind === 'refund' && entry.chargeId === chargeId)
    .reduce((sum, { amount }) => sum + amount, 0);
}
