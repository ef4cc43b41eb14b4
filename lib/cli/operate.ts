import { asError, isIdempotencyError } from '../core/errors/errors.js';
import { pauseAfter, type ActionResult } from '../core/operator/operator.js';
import type { AuditEntry } from '../core/operator/operator-options.js';
import type { RecordSheet } from '../core/operator/record-sheet.js';
import type { Duration } from '../core/options/duration.js';
import { RECORD_STATES, type RecordState } from '../core/record/record.js';
import { nodeClock } from '../core/util/clock.js';
import type { IdempotencyRecords } from '../nest/idempotency-records.js';
import {
  isAct,
  oneOf,
  readArguments,
  recordOf,
  refOf,
  required,
  whoOf,
  wholeNumber,
  type Given,
  type OperatorCommand,
} from './operator/arguments.js';
import {
  DIGEST_KEYS,
  openRecords,
  type Environment,
  type OpenedRecords,
} from './operator/open-records.js';
import {
  erasureText,
  jsonOf,
  lineOf,
  resultText,
  sheetText,
  TABLE_HEAD,
  tableRow,
} from './operator/texts.js';
import { givenOutcome } from './operator/given-outcome.js';
import { openAudit, type OpenedAudit } from './operator/open-audit.js';
import { MAY_BE_DONE, ServerFailure, UsageError } from './servers/failures.js';
import type { ServerAddress } from './servers/server-address.js';

/** Where the command runs. */
export interface Terminal {
  /** What it was asked for. */
  print(text: string): void;
  /** What is no part of that. */
  note(text: string): void;
  /** In place of what was shown before. Empty: takes it away. */
  progress(text: string): void;
  readInput(): Promise<string>;
  readonly environment: Environment;
}

/** What was asked for. */
const DONE = 0;
const NOT_DONE = 1;

/**
 * Runs a command for operators, over `IdempotencyRecords`.
 * @param args - after the command.
 * @returns the exit code: 1 if nothing was found or done.
 * @throws {@link UsageError}, and {@link ServerFailure} without a reply of the store or the audit.
 */
export async function runOperator(
  command: OperatorCommand,
  args: string[],
  terminal: Terminal,
): Promise<number> {
  const given = readArguments(command, args);
  const run = prepared(command, given, terminal);
  const { environment } = terminal;
  const print = (entry: AuditEntry) => {
    terminal.note(`audit ${lineOf(entry)}`);
  };
  let audit: OpenedAudit | undefined;
  let opened: OpenedRecords | undefined;
  try {
    const audited = isAct(command) || command === 'erase';
    const url = audited ? (given.audit ?? environment.IDEMPOTENCY_AUDIT_URL) : undefined;
    audit = await openAudit(url, print);
    opened = await openRecords(given, environment, audit.audit);
    return await run(opened);
  } catch (error) {
    throw failureOf(error, [audit?.address, opened?.address]);
  } finally {
    terminal.progress('');
    await opened?.close();
    await audit?.close();
  }
}

type Run = (opened: OpenedRecords) => Promise<number>;

/** Complains about arguments before it opens anything. */
function prepared(command: OperatorCommand, given: Given, terminal: Terminal): Run {
  if (isAct(command)) return actOf(command, given, terminal);
  switch (command) {
    case 'find':
      return findOf(given, terminal);
    case 'list':
      return listOf(given, terminal);
    case 'show':
      return showOf(given, terminal);
    case 'erase':
      return eraseOf(given, terminal);
    default:
      return exportOf(given, terminal);
  }
}

function findOf({ key, scope, service, operation, json }: Given, terminal: Terminal): Run {
  required(
    service,
    'service',
    'the name of the application, which is a part of what names a record',
  );
  const given = required(
    key,
    'key',
    'the key as the client sent it, or - to read it from the input',
  );
  return async ({ records, isProtected, hasTags }) => {
    // Other processes of the machine can see the arguments.
    const own = given === '-' ? withoutLineEnd(await terminal.readInput()) : given;
    if (own === '') throw new UsageError('The input has no key.');
    let found = 0;
    const show = (sheet: RecordSheet) => {
      found += 1;
      terminal.print(json === true ? lineOf(jsonOf(sheet)) : `${sheetText(sheet)}\n`);
    };
    for (const sheet of await records.find({ key: own, scope: scope ?? [] })) show(sheet);
    if (found === 0 && scope === undefined && hasTags) {
      const filter = { key: own, operation: operation?.length === 1 ? operation[0] : undefined };
      for await (const sheet of all(records, filter, terminal)) show(sheet);
    }
    if (found > 0) return DONE;
    const narrow =
      operation === undefined
        ? ' --operation was not given: only a key that is unique for its caller was looked up.'
        : '';
    const unknown =
      scope === undefined && !hasTags
        ? ' --scope was not given: only a request of nobody was looked up. Set IDEMPOTENCY_TAG_SECRETS to find the key of anybody, if the application has "annotate.tags".'
        : '';
    const plain = isProtected
      ? ''
      : ' IDEMPOTENCY_DIGEST_KEYS is not set: an application with "protectDigests" has other names.';
    terminal.note(
      `No record: it never began, has expired, or has another caller, operation or service.${narrow}${unknown}${plain}\n`,
    );
    return NOT_DONE;
  };
}

function listOf(given: Given, terminal: Terminal): Run {
  const { state, lease, json, scope, operation: [operation, ...others] = [] } = given;
  if (others.length > 0)
    throw new UsageError('Pass --operation once: a list is of one operation, or of all.');
  const states: RecordState[] | undefined = state?.map((each) =>
    oneOf(each, 'state', RECORD_STATES),
  );
  const filter = {
    states,
    lease: lease === undefined ? undefined : oneOf(lease, 'lease', ['running', 'over'] as const),
    minAge: given['min-age'] as Duration | undefined,
    scope: scope === undefined ? undefined : scopeOf(given, terminal),
    operation,
  };
  const limit = wholeNumber(given.limit, 'limit', 1_000_000) ?? 100;
  return async ({ records }) => {
    let isFirst = true;
    let count = 0;
    for await (const sheet of all(records, filter, terminal)) {
      if (count === limit) {
        terminal.note(`There are more than ${String(limit)}: see --limit.\n`);
        return DONE;
      }
      count += 1;
      if (json === true) {
        terminal.print(lineOf(jsonOf(sheet)));
        continue;
      }
      if (isFirst) terminal.print(TABLE_HEAD);
      isFirst = false;
      terminal.print(tableRow(sheet));
    }
    if (count > 0) return DONE;
    terminal.note('No record.\n');
    return NOT_DONE;
  };
}

/** Each record once, and how far it is. */
async function* all(
  records: IdempotencyRecords,
  filter: Parameters<IdempotencyRecords['list']>[0],
  terminal: Terminal,
): AsyncGenerator<RecordSheet, void, undefined> {
  const seen = new Set<string>();
  let cursor: string | undefined;
  let scanned = 0;
  do {
    const startedAt = nodeClock.now();
    const page = await records.list(filter, { cursor, limit: 500 });
    for (const sheet of page.records) {
      if (seen.has(sheet.recordKey)) continue;
      seen.add(sheet.recordKey);
      terminal.progress('');
      yield sheet;
    }
    scanned += page.scanned;
    terminal.progress(`looked at ${String(scanned)}, found ${String(seen.size)}`);
    cursor = page.cursor;
    if (cursor !== undefined) await pauseAfter(page, startedAt, nodeClock);
  } while (cursor !== undefined);
  terminal.progress('');
}

function showOf(given: Given, terminal: Terminal): Run {
  const recordKey = recordOf(given);
  return async ({ records }) => {
    const sheet = await records.explain(recordKey);
    if (sheet === undefined) {
      terminal.note('No record: it has expired, or was deleted.\n');
      return NOT_DONE;
    }
    terminal.print(given.json === true ? lineOf(jsonOf(sheet)) : sheetText(sheet));
    return DONE;
  };
}

function actOf(action: ActionResult['action'], given: Given, terminal: Terminal): Run {
  const ref = refOf(given);
  if (action === 'retain') required(given.retention, 'retention', 'how long, from now, such as 7d');
  const how = {
    ...whoOf(given),
    nothingHappened: given['nothing-happened'],
    retention: given.retention as Duration | undefined,
  };
  const readOutcome = givenOutcome(given, () => terminal.readInput());
  const [operation, ...others] = given.operation ?? [];
  if (others.length > 0) throw new UsageError('Pass --operation once: a record is of one.');
  return async ({ records, isProtected }) => {
    if (readOutcome !== undefined && isProtected) {
      throw new UsageError(
        'An application with digest keys may encrypt its outcomes, by keys that this command does not have: complete the record there, by IdempotencyRecords, or here without --value and --answer.',
      );
    }
    const result = await records.act(action, ref, {
      ...how,
      with: await readOutcome?.(),
      operation,
    });
    terminal.print(given.json === true ? lineOf(result) : resultText(result));
    return result.kind === 'ok' || result.kind === 'already' ? DONE : NOT_DONE;
  };
}

function eraseOf(given: Given, terminal: Terminal): Run {
  const scope = scopeOf(given, terminal);
  const mode = oneOf(required(given.mode, 'mode', 'redact or delete'), 'mode', [
    'redact',
    'delete',
  ] as const);
  const who = whoOf(given);
  const { json } = given;
  const dryRun = given.yes !== true;
  return async ({ records }) => {
    const erasure = await records.erase(scope, { ...who, mode, dryRun });
    terminal.print(json === true ? lineOf({ ...erasure, dryRun }) : erasureText(erasure, dryRun));
    const { inProgress, left, bodiesLeft } = erasure;
    return inProgress + left + bodiesLeft === 0 ? DONE : NOT_DONE;
  };
}

function exportOf(given: Given, terminal: Terminal): Run {
  const scope = scopeOf(given, terminal);
  return async ({ records }) => {
    for await (const sheet of all(records, { scope }, terminal)) {
      terminal.print(given.json === true ? lineOf(jsonOf(sheet)) : `${sheetText(sheet)}\n`);
    }
    return DONE;
  };
}

/** Of a command that finds records by the tag of their scope. */
function scopeOf({ scope = [], service }: Given, { environment }: Terminal): string[] {
  required(service, 'service', "the name of the application, which is a part of a scope's tag");
  if (scope.length === 0)
    throw new UsageError(
      'Pass --scope PART, the caller; once for each part, the most general first.',
    );
  if ((environment.IDEMPOTENCY_DIGEST_KEYS ?? '') !== '') return scope;
  throw new UsageError(
    `The records of a scope are found by a keyed tag in front of their names. ${DIGEST_KEYS} Without "protectDigests" a name does not show whose it is.`,
  );
}

function withoutLineEnd(input: string): string {
  return input.replace(/\r?\n$/, '');
}

/** Of a server, without the passwords of URLs; an error of the arguments stays one. */
function failureOf(error: unknown, addresses: readonly (ServerAddress | undefined)[]): unknown {
  if (error instanceof UsageError || !isIdempotencyError(error)) return error;
  const { code, message, cause } = error;
  const why = cause === undefined ? '' : ` The cause: ${asError(cause).message}`;
  const text = code === 'idempotency_audit_unavailable' ? message + why : message;
  const shown = addresses.reduce(
    (redacted, address) => address?.redact(redacted) ?? redacted,
    text,
  );
  if (code === 'idempotency_options_invalid') return new UsageError(shown);
  return new ServerFailure(`${shown} [${code}]`, MAY_BE_DONE);
}
