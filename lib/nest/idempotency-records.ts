import type { IdempotencyEngine } from '../core/engine/idempotency-engine.js';
import { IdempotencyOptionsError } from '../core/errors/errors.js';
import type { Duration } from '../core/options/duration.js';
import {
  checkBoolean,
  checkDuration,
  checkInteger,
  checkNames,
  throwOptionError,
} from '../core/options/option-checks.js';
import { isText } from '../core/options/option-schema.js';
import {
  checkActOptions,
  Operator,
  pauseAfter,
  type ActionOptions,
  type ActionResult,
  type ActOptions,
  type EncodedOutcome,
  type GivenOutcome,
} from '../core/operator/operator.js';
import type { AuditEntry, OperatorAction } from '../core/operator/operator-options.js';
import { sheetOf, type RecordRef, type RecordSheet } from '../core/operator/record-sheet.js';
import { RECORD_KEY_LENGTH } from '../core/record/record-key.js';
import { RECORD_STATES, type RecordKey, type RecordState } from '../core/record/record.js';
import { givenScope, readScope, type Scope, type ScopePart } from '../core/record/scope.js';
import { jitteredPause } from '../core/util/time.js';
import { checkGiven, encodedOutcome } from './given-outcome.js';
import {
  resolveModuleOptions,
  type IdempotencyModuleOptions,
} from './options/idempotency-options.js';
import type { OperationNames } from './registry/operation-names.js';

/** The name of an operation, the key that its client sent, and whose it is. */
export interface RecordQuery {
  /** As the client sent it; the value of the header field may be quoted. */
  readonly key: string;
  /**
   * The caller, as `caller.scope` or `scope` gives it; of a message with its consumer first; `[]` for requests of nobody.
   * @defaultValue unknown: searched by the tag of the key. `undefined` is refused: it would find what others have sent
   */
  readonly scope?: ScopePart | readonly ScopePart[];
  /** @defaultValue each operation of this application */
  readonly operation?: string | undefined;
}

/** Which records to list. */
export interface RecordFilter {
  /** @defaultValue all */
  readonly states?: readonly RecordState[] | undefined;
  /** Only records in progress whose lease is running, or is over. */
  readonly lease?: 'running' | 'over' | undefined;
  /** How long ago the latest attempt began, at least. */
  readonly minAge?: Duration | undefined;
  /** Only records of this scope, and of those within it. Needs `protectDigests`. */
  readonly scope?: ScopePart | readonly ScopePart[] | undefined;
  /** Only records of this operation. Needs `annotate`. */
  readonly operation?: string | undefined;
  /** Only records of this key of a client, whoever sent it. Needs `annotate.tags`. */
  readonly key?: string | undefined;
}

/** Where a list goes on. */
export interface ListPosition {
  /** {@link RecordList.cursor} of the previous page. */
  readonly cursor?: string | undefined;
  /** About how many records, from 1 to 500. @defaultValue 100 */
  readonly limit?: number | undefined;
}

/** A page of records. */
export interface RecordList {
  readonly records: readonly RecordSheet[];
  /** How many records the store has looked at for this page, about. */
  readonly scanned: number;
  /** Omitted on the last page. */
  readonly cursor?: string;
}

/** What is to be done to the records that an operator has seen. What changes in between is skipped. */
export interface BulkPlan {
  readonly action: OperatorAction;
  readonly records: readonly RecordSheet[];
  /** Whether there are more than the plan has. */
  readonly isPartial: boolean;
}

/** What {@link IdempotencyRecords.erase} has done: each record counts once. */
export interface Erasure {
  /** With `dryRun`, those that would be erased, if nothing changes. */
  readonly erased: number;
  /** Those of attempts without an outcome, which are left: they run, or wait to be settled. */
  readonly inProgress: number;
  /** Others that were left: they changed meanwhile, or their outcome was stored just now. */
  readonly left: number;
  /** Of those that were erased, how many have left a body in a blob store: see {@link ActionResult.body}. */
  readonly bodiesLeft: number;
}

const WOULD_BE: Pick<ActionResult, 'kind' | 'body'> = { kind: 'ok' };

const MAX_LOOKUPS = 500;
const MAX_SCANNED = 2_000;
/** For a key whose caller is unknown: a list goes on. */
const MAX_SEARCHED = 20_000;
const MAX_PLAN = 1_000;
const MAX_PER_SECOND = 1_000;

/**
 * Finds, explains and settles records, for operators: what consoles, command lines and scripts share. Each act is audited
 * before and after (module option `operator`), raises the event `operator_action`, and is compared with what the operator saw:
 * a record that has changed since is left as it is.
 *
 * @example
 * ```ts
 * const [sheet] = await records.find({ key: '6f1b0d3e', scope: 'alice' });
 * console.log(sheet.happened, sheet.retry);
 * await records.complete(sheet, { actor: 'mia', reason: 'the provider has the charge' });
 * ```
 */
export class IdempotencyRecords {
  private readonly operator: Operator;
  private readonly resolved: ReturnType<typeof resolveModuleOptions>;

  /** @internal */
  constructor(
    private readonly engine: IdempotencyEngine,
    private readonly names: Pick<OperationNames, 'all' | 'declared'>,
    private readonly options: IdempotencyModuleOptions,
    log: (entry: AuditEntry) => void,
  ) {
    this.resolved = resolveModuleOptions(options);
    this.operator = new Operator(engine, this.resolved.operator, this.resolved, log);
  }

  /**
   * The records of a key: it is looked up under each name that it may have. Nothing is searched but a key without `scope`
   * that is none of a request of nobody: by its tag, among 20,000 records at most. `list({ key })` goes further.
   * @throws {@link IdempotencyOptionsError} for an invalid scope, for more operations than can be looked up, and if the key of
   * an unknown caller was not found though there are more records, or without `annotate.tags`.
   */
  async find(query: RecordQuery): Promise<readonly RecordSheet[]> {
    checkNames('IdempotencyRecords.find()', query, QUERY);
    const { key, scope, operation } = query;
    checkText('key', key);
    if ((scope === undefined && 'scope' in query) || (scope as unknown) === null) {
      throwOptionError('scope', 'the caller, or left out to look for any caller', scope);
    }
    if (operation !== undefined) checkText('operation', operation);
    const found = await this.lookUp(key, scope ?? [], operation);
    return scope === undefined && found.length === 0 ? this.search(key, operation) : found;
  }

  private async search(key: string, operation: string | undefined): Promise<RecordSheet[]> {
    // Records that do not say their operation may be of it.
    const isSaid =
      operation !== undefined && this.engine.annotations?.textOfOperation(operation) !== undefined;
    const filter = { key, operation: isSaid ? operation : undefined };
    const found = new Map<RecordKey, RecordSheet>();
    let scanned = 0;
    let cursor: string | undefined;
    do {
      const page = await this.list(filter, { cursor, limit: 500 });
      for (const sheet of page.records) found.set(sheet.recordKey, sheet);
      scanned += page.scanned;
      cursor = page.cursor;
    } while (cursor !== undefined && scanned < MAX_SEARCHED);
    if (cursor !== undefined && found.size === 0) {
      throw new IdempotencyOptionsError(
        `IdempotencyRecords.find() has looked at ${String(scanned)} records without the key, and there are more. Give the "scope", or go on with list({ key }).`,
      );
    }
    const sheets = await Promise.all([...found.keys()].map((recordKey) => this.explain(recordKey)));
    return sheets.filter((sheet) => sheet !== undefined);
  }

  private async lookUp(
    key: string,
    scope: ScopePart | readonly ScopePart[],
    operation: string | undefined,
  ): Promise<readonly RecordSheet[]> {
    const parts = givenScope(readScope(scope, true));
    // Without an operation: `key.uniqueFor: 'principal'`.
    const operations = [...(operation === undefined ? this.names.all() : [operation]), undefined];
    const keys = new Set<RecordKey>();
    for (const each of readingsOf(parts)) {
      for (const name of operations) {
        for (const text of new Set([key, unquoted(key)])) {
          const identity = { scope: each, operation: name, key: text };
          for (const recordKey of this.engine.recordKeysOf(identity)) keys.add(recordKey);
        }
      }
    }
    if (keys.size > MAX_LOOKUPS) {
      throw new IdempotencyOptionsError(
        `IdempotencyRecords.find() would look up ${String(keys.size)} names, more than ${String(MAX_LOOKUPS)}: give the "operation".`,
      );
    }
    const sheets = await Promise.all([...keys].map((recordKey) => this.explain(recordKey)));
    return sheets.filter((sheet) => sheet !== undefined);
  }

  /** A record in sentences; `undefined` if there is none. */
  async explain(recordKey: RecordKey): Promise<RecordSheet | undefined> {
    const record = await this.operator.inspect(recordKey);
    return record && sheetOf(recordKey, record);
  }

  /**
   * A page of records, in no order. It may be empty although more follow: the store looks at a limited number for each.
   * @throws {@link IdempotencyOptionsError} if the store cannot list records, or if they do not say what is asked for.
   */
  async list(filter: RecordFilter = {}, position: ListPosition = {}): Promise<RecordList> {
    checkFilter(filter);
    checkNames('a page of records', position, POSITION);
    const { limit = 100, cursor = '' } = position;
    if (typeof cursor !== 'string') throwOptionError('cursor', 'of this list', typeof cursor);
    if (!Number.isInteger(limit) || limit < 1 || limit > 500) {
      throwOptionError('limit', 'an integer from 1 to 500', limit);
    }
    const { scope, states, lease, minAge, operation, key } = filter;
    const ofOperation = operation === undefined ? undefined : this.textOfOperation(operation);
    const ofKey = key === undefined ? undefined : this.textsOfKey(key);
    const prefixes = scope === undefined ? [''] : this.prefixesOf(scope);
    // Of several digest keys, one prefix after the other.
    const at = cursor === '' ? 0 : Number(cursor.slice(0, cursor.indexOf(' ')));
    const within = cursor.slice(cursor.indexOf(' ') + 1);
    const page = await this.operator.page({
      keyPrefix: prefixes[at] ?? throwOptionError('cursor', 'one of this list', 'another'),
      states,
      lease,
      notes: ofKey ?? (ofOperation === undefined ? undefined : [ofOperation]),
      minAgeMs: minAge === undefined ? undefined : checkDuration('minAge', minAge, '0ms', '365d'),
      limit,
      maxScanned: MAX_SCANNED,
      cursor: within === '' ? undefined : within,
    });
    // Of the store's own notes and probes, none is a request's.
    const own = page.records.filter(
      ({ recordKey, note = '' }) =>
        recordKey.length === RECORD_KEY_LENGTH &&
        (ofOperation === undefined || note.includes(ofOperation)),
    );
    const records = own.map(({ recordKey, ...record }) => sheetOf(recordKey, record, undefined));
    const { scanned } = page;
    if (page.cursor !== undefined) {
      return { records, scanned, cursor: `${String(at)} ${page.cursor}` };
    }
    return at + 1 < prefixes.length
      ? { records, scanned, cursor: `${String(at + 1)} ` }
      : { records, scanned };
  }

  /**
   * Does any of the acts below, for what has the action as a value.
   * @throws {@link AuditUnavailableError} if the audit failed: then nothing was done. So does each act.
   * @throws {@link StoreUnavailableError}, {@link StoreOutcomeUnknownError} without a reply of the store.
   */
  async act(action: OperatorAction, ref: RecordRef, options: ActOptions): Promise<ActionResult> {
    checkActOptions(options);
    const { with: given } = options;
    if (given === undefined) return this.operator.act(action, ref, options);
    checkGiven(given);
    if (action !== 'complete') throwOptionError('with', `omitted for "${action}"`, given.kind);
    return this.operator.act(action, ref, options, await this.encoded(ref, given, options));
  }

  private async encoded(
    { recordKey }: RecordRef,
    given: GivenOutcome,
    { operation }: ActOptions,
  ): Promise<EncodedOutcome> {
    const { annotations } = (await this.explain(recordKey)) ?? {};
    const said = annotations?.operation;
    if (said !== undefined && operation !== undefined && said !== operation) {
      throw new IdempotencyOptionsError(
        `The record is of "${said}", not of the given "operation": nothing was done.`,
      );
    }
    const name = said ?? operation;
    if (name === undefined) {
      throw new IdempotencyOptionsError(
        'An outcome is stored as its operation stores it, and the record does not say which one that is: give "operation", or turn on "annotate" for later records.',
      );
    }
    // By the scope of the caller, which the record does not say.
    if (this.options.secrets?.keyFor !== undefined) {
      throw new IdempotencyOptionsError(
        'Outcomes are encrypted by a key of their caller ("keyFor" of "secrets"), whom a record does not show: complete it without an outcome.',
      );
    }
    return encodedOutcome(given, name, this.names.declared(name), this.resolved);
  }

  /** The operation may run again, though the attempt before has left no outcome. @see {@link act} */
  release(
    ref: RecordRef,
    options: ActionOptions & Pick<ActOptions, 'nothingHappened'>,
  ): Promise<ActionResult> {
    return this.act('release', ref, options);
  }

  /**
   * The operation counts as done: without its response, or `with` what its retries get.
   * @throws {@link IdempotencyOptionsError} for an outcome that does not fit the operation: nothing was done.
   * @see {@link act}
   */
  complete(
    ref: RecordRef,
    options: ActionOptions & Pick<ActOptions, 'retention' | 'with' | 'operation'>,
  ): Promise<ActionResult> {
    return this.act('complete', ref, options);
  }

  /** Drops an outcome: the operation runs again. @see {@link act} */
  reopen(
    ref: RecordRef,
    options: ActionOptions & Pick<ActOptions, 'nothingHappened'>,
  ): Promise<ActionResult> {
    return this.act('reopen', ref, options);
  }

  /** Drops the response, and keeps that the operation is done. @see {@link act} */
  redact(ref: RecordRef, options: ActionOptions): Promise<ActionResult> {
    return this.act('redact', ref, options);
  }

  /** Keeps the outcome for another duration, from now. @see {@link act} */
  retain(
    ref: RecordRef,
    options: ActionOptions & { readonly retention: Duration },
  ): Promise<ActionResult> {
    return this.act('retain', ref, options);
  }

  /** Deletes a record: the next retry is a first request. @see {@link act} */
  delete(ref: RecordRef, options: ActionOptions): Promise<ActionResult> {
    return this.act('delete', ref, options);
  }

  /**
   * Lists what an action would be done to, which then does not change with the store.
   * @param filter - `{}`: all records. A `scope`, `operation` or `key` that is `undefined` is refused.
   * @param limit - at most 1,000
   */
  async plan(
    action: BulkPlan['action'],
    filter: RecordFilter,
    { limit = MAX_PLAN }: { readonly limit?: number } = {},
  ): Promise<BulkPlan> {
    checkInteger('limit', limit, 1, Number.MAX_SAFE_INTEGER);
    const most = Math.min(limit, MAX_PLAN);
    const records: RecordSheet[] = [];
    for await (const sheet of this.all(filter)) {
      if (!sheet.actions.some((possible) => possible.action === action)) continue;
      if (records.length >= most) return { action, records, isPartial: true };
      records.push(sheet);
    }
    return { action, records, isPartial: false };
  }

  /** Does what was planned, one record after the other. What has changed since is skipped, with the result `changed`. */
  async *run(
    { action, records }: Pick<BulkPlan, 'action'> & { readonly records: readonly RecordRef[] },
    options: ActOptions & {
      /** @defaultValue 100, from 1 to 1,000 */
      readonly perSecond?: number;
      readonly signal?: AbortSignal;
    },
  ): AsyncGenerator<ActionResult, void, undefined> {
    const { perSecond = 100, signal, ...how } = options;
    checkActOptions(how);
    if (!Number.isInteger(perSecond) || perSecond < 1 || perSecond > MAX_PER_SECOND) {
      throwOptionError('perSecond', `an integer from 1 to ${String(MAX_PER_SECOND)}`, perSecond);
    }
    for (const sheet of records) {
      if (signal?.aborted === true) return;
      yield await this.act(action, sheet, how);
      await jitteredPause(1_000 / perSecond, this.engine.clock);
    }
  }

  /**
   * Removes what is stored of a scope, and of those within it. `redact` keeps that each operation is done, so that no retry
   * runs it again; `delete` does not. Bodies in the blob store go, too. Records in progress are left: settle them, or call it
   * again once they have ended. Redacted and deleted records that are found again are erased again.
   * @throws {@link IdempotencyOptionsError} without `protectDigests`: a record's name then does not show whose it is.
   */
  async erase(
    scope: ScopePart | readonly ScopePart[],
    {
      mode,
      dryRun = false,
      ...how
    }: ActionOptions & { readonly mode: 'redact' | 'delete'; readonly dryRun?: boolean },
  ): Promise<Erasure> {
    if (!MODES.includes(mode)) throwOptionError('mode', `'redact' or 'delete'`, mode);
    checkBoolean('dryRun', dryRun);
    checkActOptions(how);
    const counts = { erased: 0, inProgress: 0, left: 0, bodiesLeft: 0 };
    for await (const sheet of this.all({ scope })) {
      const { actions, record } = sheet;
      if (record.state === 'in_progress') counts.inProgress += 1;
      if (!actions.some(({ action }) => action === mode)) continue;
      const { kind, body } = dryRun ? WOULD_BE : await this.act(mode, sheet, how);
      counts[kind === 'ok' || kind === 'already' ? 'erased' : 'left'] += 1;
      if (body === 'left') counts.bodiesLeft += 1;
    }
    return counts;
  }

  /** What is stored of a scope, and of those within it, without outcomes. @throws as {@link erase} does */
  export(scope: ScopePart | readonly ScopePart[]): AsyncGenerator<RecordSheet, void, undefined> {
    return this.all({ scope });
  }

  /** Each record once, though a store may list it twice: at a pace that leaves the server to its requests. */
  private async *all(filter: RecordFilter): AsyncGenerator<RecordSheet, void, undefined> {
    checkChosen(filter);
    const { clock } = this.engine;
    const seen = new Set<RecordKey>();
    let cursor: string | undefined;
    do {
      const startedAt = clock.now();
      const page = await this.list(filter, { cursor, limit: 500 });
      for (const sheet of page.records) {
        if (seen.has(sheet.recordKey)) continue;
        seen.add(sheet.recordKey);
        yield sheet;
      }
      cursor = page.cursor;
      if (cursor !== undefined) await pauseAfter(page, startedAt, clock);
    } while (cursor !== undefined);
  }

  private textOfOperation(operation: string): string {
    checkText('operation', operation);
    const text = this.engine.annotations?.textOfOperation(operation);
    if (text !== undefined) return text;
    throw new IdempotencyOptionsError(
      'The records of an operation cannot be listed: without the module option "annotate", or with its "operation" false, a record does not say which operation it is of. Set "annotate" to true; records that began before then stay without.',
    );
  }

  private textsOfKey(key: string): string[] {
    checkText('key', key);
    const { annotations } = this.engine;
    if (annotations?.hasTags === true) {
      return [...new Set([key, unquoted(key)])].flatMap((text) => annotations.textsOfKey(text));
    }
    throw new IdempotencyOptionsError(
      'A key cannot be found without its caller: the name of a record is a digest of scope, operation and key together. Give the "scope", or set the module option "annotate.tags" to { secret }; records that began before then stay without a tag.',
    );
  }

  private prefixesOf(scope: ScopePart | readonly ScopePart[]): string[] {
    const readings = readingsOf(givenScope(readScope(scope)));
    const prefixes = readings.flatMap((reading) => this.engine.scopePrefixes(reading));
    if (prefixes.length > 0) return prefixes;
    throw new IdempotencyOptionsError(
      'The records of a scope cannot be found: without the module option "protectDigests" the name of a record is a digest of scope, operation and key together. With it, a tag of the scope stands in front.',
    );
  }
}

const QUERY: ReadonlySet<string> = new Set<keyof RecordQuery>(['key', 'scope', 'operation']);
const POSITION: ReadonlySet<string> = new Set<keyof ListPosition>(['cursor', 'limit']);
const FILTER: ReadonlySet<string> = new Set<keyof RecordFilter>([
  ...(['states', 'lease', 'minAge', 'scope', 'operation', 'key'] as const),
]);
const MODES: readonly string[] = ['redact', 'delete'];

/** What is misspelt would not filter, and an act on what was listed would be done to all records. */
function checkFilter(filter: RecordFilter): void {
  checkNames('a filter of records', filter, FILTER);
  const { states = [], lease = 'over' }: { states?: unknown; lease?: unknown } = filter;
  const known: readonly unknown[] = RECORD_STATES;
  if (!Array.isArray(states) || !states.every((state) => known.includes(state))) {
    throwOptionError('states', `a list of ${RECORD_STATES.join(', ')}`, states);
  }
  if (lease !== 'running' && lease !== 'over') {
    throwOptionError('lease', "'running' or 'over'", lease);
  }
}

/** What an act is to be done to: of a caller, key or operation that happens to be `undefined`, it is not all records. */
function checkChosen(filter: RecordFilter): void {
  checkFilter(filter);
  for (const name of ['scope', 'operation', 'key'] as const) {
    if (name in filter && filter[name] === undefined) {
      throwOptionError(name, 'given, or left out for the records of all', undefined);
    }
  }
}

function checkText(option: 'key' | 'operation', value: unknown): void {
  if (!isText(value)) throwOptionError(option, 'a text', typeof value);
}

const QUOTED = /^"(.*)"$/s;

/** As the transport reads the header field: a string of structured fields. */
function unquoted(key: string): string {
  const inner = QUOTED.exec(key)?.[1];
  return inner === undefined ? key : inner.replace(/\\(["\\])/g, '$1');
}

const INTEGER = /^(?:0|-?[1-9]\d*)$/;

/** A number and its text are two parts, and an operator may not know which one the application gives. */
function readingsOf(scope: Scope): Scope[] {
  return scope.reduce<Scope[]>(
    (readings, part) =>
      readings.flatMap((reading) => formsOf(part).map((form) => [...reading, form])),
    [[]],
  );
}

function formsOf(part: ScopePart): ScopePart[] {
  const text = String(part);
  if (!INTEGER.test(text)) return [part];
  const number = Number(text);
  return Number.isSafeInteger(number) ? [text, number, BigInt(text)] : [text, BigInt(text)];
}
