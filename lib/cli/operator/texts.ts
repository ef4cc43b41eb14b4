import type { ActionResult } from '../../core/operator/operator.js';
import type { RecordSheet } from '../../core/operator/record-sheet.js';
import type { Erasure } from '../../nest/idempotency-records.js';
import { textOfMs } from '../../core/operator/text-of-ms.js';

/** What of a sheet is printed as JSON: no origin, which may have the key and the caller in clear, and no fingerprint. */
export function jsonOf({
  recordKey,
  expected,
  record,
  annotations,
  happened,
  retry,
  actions,
}: RecordSheet): object {
  const { state, attempt, takeovers, ageMs, leaseLeftMs, retentionLeftMs } = record;
  const facts = { state, attempt, takeovers, ageMs, leaseLeftMs, retentionLeftMs };
  return { recordKey, expected, ...facts, ...annotations, happened, retry, actions };
}

export function lineOf(value: object): string {
  return `${JSON.stringify(value)}\n`;
}

/** A record in sentences, and the options of an act on it. */
export function sheetText({
  recordKey,
  expected,
  annotations: { operation },
  happened,
  retry,
  actions,
}: RecordSheet): string {
  const rows = [
    ...(operation === undefined ? [] : [['operation', operation]]),
    ['state', expected.state],
    ['happened', happened],
    ['retry', retry],
    ...actions.map(({ action, effect }) => [action, effect]),
  ];
  const lines = rows.map(([name = '', value = '']) => `  ${name.padEnd(9)} ${value}\n`);
  const { state, fence } = expected;
  const options = `  to act    --record=${recordKey} --expect=${state}:${String(fence)}\n`;
  return `${recordKey}\n${lines.join('')}${options}`;
}

const COLUMNS = ['record', 'state', 'attempt', 'began', 'lease', 'kept for', 'operation'] as const;

/** Wide enough for each value, so that a page can be printed before the next one is there. */
const WIDTHS = [43, 11, 7, 10, 14, 10];

export const TABLE_HEAD = rowOf(COLUMNS.map((name) => name.toUpperCase()));

export function tableRow({
  recordKey,
  record,
  annotations: { operation = '-' },
}: RecordSheet): string {
  const { state, attempt, ageMs, leaseLeftMs, retentionLeftMs } = record;
  const lease =
    leaseLeftMs === undefined
      ? '-'
      : leaseLeftMs > 0
        ? `${textOfMs(leaseLeftMs)} left`
        : `over ${textOfMs(-leaseLeftMs)}`;
  const began = `${textOfMs(ageMs)} ago`;
  return rowOf([
    recordKey,
    state,
    String(attempt),
    began,
    lease,
    textOfMs(retentionLeftMs),
    operation,
  ]);
}

function rowOf(cells: readonly string[]): string {
  return `${cells
    .map((cell, at) => cell.padEnd(WIDTHS[at] ?? 0))
    .join('  ')
    .trimEnd()}\n`;
}

const RESULTS: Readonly<Record<ActionResult['kind'], string>> = {
  ok: 'Done.',
  already: 'It was done before.',
  changed:
    'Nothing was done: the record is no longer what you saw, or is gone. Look again with show.',
  running:
    'Nothing was done: an attempt has the record. Wait for it, or take the record from it with --even-if-running.',
  too_fresh:
    'Nothing was done: a late copy of its attempt could still store the outcome again. Wait, or accept that with --even-if-running.',
  not_applicable: 'Nothing was done: there is no such act on a record in this state.',
};

export function resultText({ action, kind, isAudited, body }: ActionResult): string {
  const audit = isAudited ? '' : ' The audit has the intent, but not this result: add it.';
  const left = body === 'left' ? ` ${BODY_LEFT}` : '';
  return `${action}: ${kind}. ${RESULTS[kind]}${left}${audit}\n`;
}

const BODY_LEFT =
  'A body is left in the blob store, which deletes it by its age: this command does not know the store.';

export function erasureText(
  { erased, inProgress, left, bodiesLeft }: Erasure,
  dryRun: boolean,
): string {
  const lines = [
    dryRun ? `${String(erased)} would be erased: do it with --yes.` : `${String(erased)} erased.`,
    inProgress > 0 &&
      `${String(inProgress)} left, without an outcome: wait for those that run, settle the others, and erase again.`,
    left > 0 && `${String(left)} left, which changed or ended just now: erase again.`,
    bodiesLeft > 0 && `${String(bodiesLeft)} of these: ${BODY_LEFT}`,
  ];
  return lines
    .filter((line) => line !== false)
    .map((line) => `${line}\n`)
    .join('');
}
