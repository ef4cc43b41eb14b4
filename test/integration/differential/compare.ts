import type {
  StoredRecord,
  BeginReply,
  CompleteReply,
  ExtendReply,
  IdempotencyRecord,
  ReleaseReply,
  Outcome,
} from '../../support/internals/core.js';
import { expected } from './subjects/reference.js';
import { type Step, sequences } from './sequence.js';
import { checkRandomly, type RandomRuns } from '../../support/jest/random-runs.js';
import { Coverage } from './coverage.js';

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

/**
 * Compares a store with the reference over random sequences.
 *
 * @returns what occurred in the sequences, and how many were checked.
 * @throws the shrunk first difference.
 */
export async function checkStore(
  subject: Subject,
  extent: Pick<RandomRuns<readonly Step[]>, 'runs' | 'seed'>,
): Promise<{ readonly coverage: Coverage; readonly checked: number }> {
  const coverage = new Coverage();
  const checked = await checkRandomly({
    ...extent,
    values: sequences,
    atOnce: 200,
    check: (steps) => compare(subject, steps, coverage.watch),
  });
  return { coverage, checked };
}

/**
 * Encodes replies and records of the reference, independently of the stores' own code: replies as the headers of the Lua
 * files list their fields. Bytes are written as latin1, one character each.
 */
export type Fields = readonly string[];

type Reply = BeginReply | ExtendReply | CompleteReply | ReleaseReply;

export function encodeReply(reply: Reply): Fields {
  return [...encodeFields(reply), ...('note' in reply ? [reply.note] : [])];
}

function encodeFields(reply: Reply): Fields {
  switch (reply.kind) {
    case 'acquired':
    case 'owned':
    case 'takeover':
      return fields(reply.kind, reply.fence, reply.now, reply.attempt, reply.takeovers);
    case 'in_progress':
      return fields(reply.kind, reply.leaseLeftMs);
    case 'abandoned':
      return fields(reply.kind, reply.fence, reply.overMs, reply.attempt, reply.takeovers);
    case 'completed':
    case 'failed':
      return fields(reply.kind, reply.retentionLeftMs, ...encodeOutcome(reply.outcome));
    case 'late':
      return fields(reply.kind, reply.now);
    case 'superseded':
      return fields(reply.kind, reply.state, ...encodeOutcome(reply.outcome));
    case 'lost':
      return 'state' in reply ? fields(reply.kind, reply.state, reply.fence) : [reply.kind];
    default:
      return [reply.kind];
  }
}

export function encodeInspection(record: IdempotencyRecord | undefined): Fields {
  if (record === undefined) return ['absent'];
  const { state, fence, attempt, takeovers, fingerprint, retentionLeftMs, note = '-' } = record;
  const common = fields(state, fence, attempt, takeovers, fingerprint, retentionLeftMs, note);
  if (record.outcome !== undefined) return [...common, ...encodeOutcome(record.outcome)];
  if (record.leaseLeftMs === undefined) return common;
  return [...common, String(record.leaseLeftMs), record.origin ?? '-'];
}

export function encodeRecord(record: StoredRecord): string {
  const { fence, expiresAt, attempt, takeovers, token, fingerprint, note = '-' } = record;
  const tail = fields(expiresAt, attempt, takeovers, token, fingerprint, note);
  switch (record.state) {
    case 'in_progress': {
      const { leaseUntil, leaseMs, deadline, origin } = record;
      return `${fields('p', fence, leaseUntil, leaseMs, deadline, ...tail, origin ?? '-').join(' ')}\n`;
    }
    case 'released':
      return `${fields('r', fence, ...tail).join(' ')}\n`;
    default: {
      const line = fields(record.state === 'completed' ? 'c' : 'f', fence, ...tail).join(' ');
      return [line, ...encodeOutcome(record.outcome)].join('\n');
    }
  }
}

export function encodeOutcome({ header, body }: Outcome): Fields {
  return [Buffer.from(header).toString('latin1'), Buffer.from(body).toString('latin1')];
}

function fields(...values: (string | number)[]): Fields {
  return values.map(String);
}
