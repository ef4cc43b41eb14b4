import { parseArgs, type ParseArgsConfig } from 'node:util';
import { isRecordKey } from '../../core/record/record-key.js';
import type { RecordState } from '../../core/record/record.js';
import type { ActionOptions } from '../../core/operator/operator.js';
import type { RecordRef } from '../../core/operator/record-sheet.js';
import type { OperatorAction } from '../../core/operator/operator-options.js';
import { UsageError } from '../servers/failures.js';

type OptionsConfig = NonNullable<ParseArgsConfig['options']>;

const text = { type: 'string' } as const;
const texts = { type: 'string', multiple: true } as const;
const flag = { type: 'boolean' } as const;

const STORE = {
  redis: text,
  'key-prefix': text,
  sentinel: text,
  postgres: text,
  schema: text,
  table: text,
  'no-prepared-statements': flag,
  json: flag,
};
const OF_SCOPE = { service: text, scope: texts, 'scope-tag-parts': text };
const WHO = { actor: text, reason: text, 'even-if-running': flag, audit: text };
const OF_RECORD = { ...WHO, record: text, expect: text };
/** What of the application's options decides when an outcome may be dropped. */
const FRESHNESS = { 'max-execution': text, 'settled-for': text };

const OPTIONS = {
  find: { ...STORE, ...OF_SCOPE, operation: texts, key: text },
  list: {
    ...STORE,
    ...OF_SCOPE,
    operation: texts,
    state: texts,
    lease: text,
    'min-age': text,
    limit: text,
  },
  show: { ...STORE, record: text },
  release: { ...STORE, ...OF_RECORD, 'nothing-happened': flag },
  complete: {
    ...STORE,
    ...OF_RECORD,
    retention: text,
    value: text,
    answer: text,
    operation: texts,
  },
  reopen: { ...STORE, ...OF_RECORD, ...FRESHNESS, 'nothing-happened': flag },
  redact: { ...STORE, ...OF_RECORD },
  retain: { ...STORE, ...OF_RECORD, retention: text },
  delete: { ...STORE, ...OF_RECORD, ...FRESHNESS },
  erase: { ...STORE, ...OF_SCOPE, ...WHO, ...FRESHNESS, mode: text, yes: flag },
  export: { ...STORE, ...OF_SCOPE },
} as const satisfies Record<string, OptionsConfig>;

export type OperatorCommand = keyof typeof OPTIONS;

type AllOptions = typeof OPTIONS.find &
  typeof OPTIONS.list &
  typeof OPTIONS.reopen &
  typeof OPTIONS.complete &
  typeof OPTIONS.retain &
  typeof OPTIONS.erase;

/** All options of all commands: the parser has refused those of others. */
export type Given = ReturnType<typeof parseArgs<{ options: AllOptions }>>['values'];

export function isOperatorCommand(command: string | undefined): command is OperatorCommand {
  return command !== undefined && Object.hasOwn(OPTIONS, command);
}

/** @throws what `parseArgs` throws for an option that the command does not have. */
export function readArguments(command: OperatorCommand, args: string[]): Given {
  // Otherwise the error repeats them, and one may be a URL with a password, or a key.
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: OPTIONS[command],
  });
  if (positionals.length > 0) {
    throw new UsageError(
      'Pass a record as --record=KEY, a key as --key KEY, and a store as --redis URL or --postgres URL.',
    );
  }
  return values as Given;
}

export function isAct(command: OperatorCommand): command is OperatorAction {
  return 'expect' in OPTIONS[command];
}

/** Of `option`, which the command requires. */
export function required(value: string | undefined, option: string, why: string): string {
  if (value === undefined || value === '') throw new UsageError(`Pass --${option}: ${why}.`);
  return value;
}

export function recordOf({ record }: Given): RecordRef['recordKey'] {
  const given = required(record, 'record', 'the record, as find and list print it');
  if (isRecordKey(given)) return given;
  // Does not show it: it may be a client's key.
  throw new UsageError('--record must be 43 characters of A-Z, a-z, 0-9, - and _, as find prints.');
}

const EXPECTED = /^(in_progress|completed|failed|released):(\d{1,16})$/;

/** No act on a record without having looked at it. */
export function refOf(given: Given): RecordRef {
  const recordKey = recordOf(given);
  const why = 'what you saw of the record, as find and show print it';
  const [, state, fence] = EXPECTED.exec(required(given.expect, 'expect', why)) ?? [];
  if (state === undefined) {
    throw new UsageError('--expect must be a state and a fence, as find and show print them.');
  }
  return { recordKey, expected: { state: state as RecordState, fence: Number(fence) } };
}

export function whoOf({
  actor,
  reason,
  'even-if-running': evenIfRunning = false,
}: Given): ActionOptions {
  return {
    actor: required(actor, 'actor', 'who acts, for the audit'),
    reason: required(reason, 'reason', 'why, for the audit'),
    evenIfRunning,
  };
}

export function oneOf<Word extends string>(
  value: string,
  option: string,
  words: readonly Word[],
): Word {
  const word = words.find((each) => each === value);
  if (word === undefined) throw new UsageError(`--${option} must be ${words.join(' or ')}.`);
  return word;
}

export function wholeNumber(
  value: string | undefined,
  option: string,
  most: number,
): number | undefined {
  if (value === undefined) return undefined;
  const number = /^\d+$/.test(value) ? Number(value) : NaN;
  if (number >= 1 && number <= most) return number;
  throw new UsageError(`--${option} must be a whole number from 1 to ${String(most)}.`);
}
