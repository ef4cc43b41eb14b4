import type { StoredRecord } from '../../support/internals/core.js';
import { encodeRecord, type Fields } from './encoding.js';
import { expected } from './subjects/reference.js';
import type { Step } from './step.js';

/** The externally visible result of a step. */
export interface Observation {
  /** `undefined` where the step expects no reply. */
  readonly reply: Fields | undefined;
  readonly record: string | null;
  /** When the store would delete the record: -2, as PEXPIRETIME returns, without a record. */
  readonly expiresAt: number;
}

export const NO_RECORD = { record: null, expiresAt: -2 };

/**
 * Runs the steps of many sequences, each on its own record, and returns the result of every step. After a step whose
 * `isExpected` is false, the subject may skip the rest of that sequence.
 */
export type Subject = (
  sequences: readonly (readonly Step[])[],
  isExpected: (sequence: number, at: number, observation: Observation) => boolean,
) => Promise<readonly (readonly Observation[])[]>;

/** Called with every step and the result of the reference. */
export type Watcher = (step: Step, reply: Fields, before: StoredRecord | undefined) => void;

/** @returns for every sequence its first difference between subject and reference. */
export async function compare(
  subject: Subject,
  sequences: readonly (readonly Step[])[],
  watch: Watcher,
): Promise<(string | undefined)[]> {
  const references = sequences.map((steps) => referenceOf(steps, watch));
  const isExpected = (sequence: number, at: number, observation: Observation) =>
    isEqual(references[sequence]![at]!, observation);
  const observed = await subject(sequences, isExpected);
  return sequences.map((steps, sequence) => {
    const at = observed[sequence]!.findIndex((each, index) => !isExpected(sequence, index, each));
    if (at === -1) return undefined;
    return [
      'Store and reference differ after',
      ...steps.slice(0, at + 1).map((each) => JSON.stringify(readable(each))),
      `reference: ${JSON.stringify(references[sequence]![at])}`,
      `store:     ${JSON.stringify(observed[sequence]![at])}`,
    ].join('\n');
  });
}

function referenceOf(steps: readonly Step[], watch: Watcher): Observation[] {
  let record: StoredRecord | undefined;
  return steps.map((step) => {
    const { reply, record: after } = expected(record, step);
    if (reply !== undefined) watch(step, reply, record);
    record = after;
    if (record === undefined) return { reply, ...NO_RECORD };
    return { reply, record: encodeRecord(record), expiresAt: record.expiresAt };
  });
}

function isEqual(one: Observation, other: Observation): boolean {
  return (
    one.record === other.record &&
    one.expiresAt === other.expiresAt &&
    one.reply?.length === other.reply?.length &&
    (one.reply ?? []).every((field, index) => field === other.reply?.[index])
  );
}

function readable(step: Step): unknown {
  if (step.operation !== 'complete') return step;
  const { header, body } = step.command.outcome;
  const outcome = { header, body: Buffer.from(body).toString('latin1') };
  return { ...step, command: { ...step.command, outcome } };
}
