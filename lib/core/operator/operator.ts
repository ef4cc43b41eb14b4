import type { IdempotencyEngine } from '../engine/idempotency-engine.js';
import { unfinishedRetentionMs } from '../operation/options.js';
import type { ResolvedProtocolOptions } from '../operation/options.js';
import { AuditUnavailableError, IdempotencyOptionsError } from '../errors/errors.js';
import {
  checkBoolean,
  checkDuration,
  checkNames,
  throwOptionError,
} from '../options/option-checks.js';
import type { Duration } from '../options/duration.js';
import type { AmendedRecord, IdempotencyRecord, List, RecordPage } from '../record/commands.js';
import { annotationsIn } from '../record/annotations.js';
import { NOT_KEPT, type Outcome, type RecordKey } from '../record/record.js';
import { newOwnerToken } from '../record/record-key.js';
import type { AuditEntry, OperatorAction, ResolvedOperatorOptions } from './operator-options.js';
import type { Clock } from '../util/clock.js';
import { pauseUntil } from '../util/time.js';
import type { RecordRef } from './record-sheet.js';

/** Who acts, and why. */
export interface ActionOptions {
  /** Who acts, for the audit and the event: not empty. */
  readonly actor: string;
  /** Why, for the audit alone: 3 to 500 characters. */
  readonly reason: string;
  /**
   * Also while an attempt has the record, or before its outcome has been stored for `operator.settledFor`.
   * @defaultValue false
   */
  readonly evenIfRunning?: boolean | undefined;
}

/** Of any act: what only some acts take is refused by the others. */
export interface ActOptions extends ActionOptions {
  /**
   * Of `release` and `reopen`: whether the operator vouches that the attempt before had no effect. Else the next one is a
   * takeover.
   * @defaultValue false
   */
  readonly nothingHappened?: boolean | undefined;
  /**
   * Of `retain`, which requires it, and of `complete`: how long the outcome is kept, from now.
   * @defaultValue of `complete`: the module's `outcome.retention`
   */
  readonly retention?: Duration | undefined;
  /**
   * Of `complete`: what a retry with the same content gets.
   * @defaultValue none: that it is done is stored, and a retry gets 409 (response-not-kept)
   */
  readonly with?: GivenOutcome | undefined;
  /** Of `complete` with an outcome: the operation, if the record does not say it (module option `annotate`). */
  readonly operation?: string | undefined;
}

/** What an operator gives as the outcome of an operation: at most 64 KiB, and `outcome.maxBytes`. */
export type GivenOutcome =
  /** Of a method, a call, a job, a message, a WebSocket event or a GraphQL mutation: what it would have returned. */
  | { readonly kind: 'value'; readonly value: unknown }
  /** Of an HTTP route. */
  | {
      readonly kind: 'answer';
      /** From 200 to 599. */
      readonly status: number;
      /** Of `content-type`, `content-language`, `content-disposition`, `location`, `link`, `etag`, `cache-control` and `retry-after`. */
      readonly headers?: Readonly<Record<string, string>> | undefined;
      /** A text, a `Uint8Array`, or else what JSON can express. None for 204, 205 and 304. @defaultValue none */
      readonly body?: unknown;
    };

/** A {@link GivenOutcome} as its transport stores it. */
export interface EncodedOutcome {
  readonly kind: GivenOutcome['kind'];
  readonly outcome: Outcome;
  /** Of its operation. */
  readonly pack: ResolvedProtocolOptions['outcome'];
}

/** How an act ended. */
export interface ActionResult {
  readonly action: OperatorAction;
  readonly recordKey: RecordKey;
  /**
   * `ok`: it is done, `already`: a copy of it was. `changed`: the record is no longer what the operator saw, and nothing
   * was done. `running`: an attempt has the record. `too_fresh`: its outcome was stored just now, try again later.
   * `not_applicable`: not to a record in this state.
   */
  readonly kind: 'ok' | 'already' | 'changed' | 'running' | 'too_fresh' | 'not_applicable';
  /** Whether the audit has the result, too. */
  readonly isAudited: boolean;
  /**
   * What became of a body in a blob store, whose record no longer points to it. `left`: this process has not its blob store or
   * the key, or the blob store did not confirm the deletion: it deletes the body by its age. Omitted where there was none.
   */
  readonly body?: 'deleted' | 'left';
}

const MIN_REASON = 3;
const MAX_REASON = 500;

/** Looks at records for operators, and changes them: what every tool for operators shares. */
export class Operator {
  constructor(
    readonly engine: IdempotencyEngine,
    private readonly operator: ResolvedOperatorOptions,
    private readonly protocol: ResolvedProtocolOptions,
    private readonly log: NonNullable<ResolvedOperatorOptions['audit']>,
  ) {}

  async inspect(recordKey: RecordKey): Promise<IdempotencyRecord | undefined> {
    const { store, events } = this.engine;
    const timeoutMs = this.protocol.storeErrors.commandTimeout;
    return events.counted('inspect', () => store.inspect(recordKey, { timeoutMs }));
  }

  /** @throws {@link IdempotencyOptionsError} if the store cannot list records. */
  async page(list: Omit<List, 'timeoutMs'>): Promise<RecordPage> {
    const { store, events } = this.engine;
    const timeoutMs = this.protocol.storeErrors.commandTimeout;
    const page = await events.counted('list', () => store.list({ ...list, timeoutMs }));
    if (page !== undefined) return page;
    throw new IdempotencyOptionsError(
      'IdempotencyRecords needs a "store" that lists records; the given store has no list(). Use the store for Redis, PostgreSQL or memory.',
    );
  }

  /**
   * @param options - that {@link checkActOptions} has let through.
   * @throws {@link IdempotencyOptionsError} for an option that does not fit the action, before anything is done.
   * @throws {@link AuditUnavailableError} if the audit failed: then nothing was done.
   */
  async act(
    action: OperatorAction,
    { recordKey, expected }: RecordRef,
    options: ActOptions,
    given?: EncodedOutcome,
  ): Promise<ActionResult> {
    const { actor, reason, evenIfRunning = false } = options;
    const asked = this.changeOf(action, options);
    const { state, fence } = expected;
    const isApplicable = ALLOWED[action].includes(state);
    const needsLook = isApplicable && (given !== undefined || DROPS_OUTCOME.has(action));
    const seen = needsLook ? await this.seenBefore({ recordKey, expected }) : undefined;
    const change =
      given === undefined || seen === undefined
        ? asked
        : await this.withOutcome(asked, given, recordKey, seen);
    const deleteBody = seen && this.bodyDeletion(recordKey, seen);
    const how = { actor, reason, evenIfRunning, ...(given && { given: given.kind }) };
    const entry = { action, recordKey, expected: { state, fence }, ...how };
    try {
      await this.audit({ phase: 'intent', ...entry });
    } catch (cause) {
      throw new AuditUnavailableError(cause);
    }
    const { store, events, clock } = this.engine;
    const ended = async (
      result: ActionResult['kind'] | 'failed',
      body?: ActionResult['body'],
    ): Promise<boolean> => {
      const isAudited = await this.wasAudited({ ...entry, result, ...(body && { body }) });
      events.emit({ type: 'operator_action', recordKey, action, actor, result, isAudited });
      return isAudited;
    };
    if (!isApplicable) {
      const kind = 'not_applicable';
      return { action, recordKey, kind, isAudited: await ended(kind) };
    }
    if (given !== undefined && seen === undefined) {
      return { action, recordKey, kind: 'changed', isAudited: await ended('changed') };
    }
    const command = {
      recordKey,
      token: newOwnerToken(clock),
      expected: { state, fence },
      change,
      evenIfRunning,
      notBefore: evenIfRunning ? 0 : this.notBefore(action, fence, seen?.note),
      notify: true,
      timeoutMs: this.protocol.storeErrors.saveTimeout,
    };
    try {
      const reply = await events.counted('amend', () => store.amend(command));
      if (reply === undefined) throw new IdempotencyOptionsError(CANNOT_AMEND);
      const { kind } = reply;
      const isDone = kind === 'ok' || kind === 'already';
      const body = isDone && deleteBody !== undefined ? await deleteBody() : undefined;
      return { action, recordKey, kind, isAudited: await ended(kind, body), ...(body && { body }) };
    } catch (error) {
      await ended('failed');
      throw error;
    }
  }

  private changeOf(
    action: OperatorAction,
    { nothingHappened, retention }: ActOptions,
  ): AmendedRecord {
    if (nothingHappened === true && action !== 'release' && action !== 'reopen') {
      throwOptionError('nothingHappened', `false for "${action}"`, nothingHappened);
    }
    if (retention !== undefined && action !== 'retain' && action !== 'complete') {
      throwOptionError('retention', `omitted for "${action}"`, retention);
    }
    const tombstoneMs = unfinishedRetentionMs(this.protocol);
    switch (action) {
      case 'release':
      case 'reopen':
        return { kind: 'release', tombstoneMs, isTakeover: nothingHappened !== true };
      case 'delete':
        return { kind: 'release', tombstoneMs: 0, isTakeover: false };
      case 'redact':
        return { kind: 'keep', outcome: NOT_KEPT };
      case 'retain':
        return { kind: 'keep', retentionMs: checkDuration('retention', retention, ...RETENTION) };
      case 'complete': {
        const retentionMs =
          retention === undefined
            ? tombstoneMs
            : checkDuration('retention', retention, ...RETENTION);
        return { kind: 'settle', state: 'completed', outcome: NOT_KEPT, retentionMs };
      }
    }
  }

  /** Compressed and encrypted as the outcomes of its operation are, but never in the blob store. */
  private async withOutcome(
    change: AmendedRecord,
    { outcome, pack }: EncodedOutcome,
    recordKey: RecordKey,
    { fingerprint }: IdempotencyRecord,
  ): Promise<AmendedRecord> {
    if (change.kind !== 'settle') return change;
    const { state, retentionMs } = change;
    const binding = { recordKey, state, fingerprint };
    const { outcomes, clock } = this.engine;
    const owner = { token: newOwnerToken(clock), retentionMs };
    const packed = await outcomes.pack(outcome, binding, { ...pack, offload: false }, owner);
    return { ...change, outcome: packed };
  }

  /** @returns `undefined` where nothing of it matters, or will be done: the record has changed. */
  private async seenBefore({
    recordKey,
    expected,
  }: RecordRef): Promise<IdempotencyRecord | undefined> {
    const seen = await this.inspect(recordKey);
    const isExpected = seen?.state === expected.state && seen.fence === expected.fence;
    return isExpected ? seen : undefined;
  }

  /** Only once the record no longer points to it: a retry would find none. */
  private bodyDeletion(
    recordKey: RecordKey,
    { outcome, state, fingerprint }: IdempotencyRecord,
  ): (() => Promise<'deleted' | 'left'>) | undefined {
    if (outcome === undefined || (state !== 'completed' && state !== 'failed')) return undefined;
    const binding = { recordKey, state, fingerprint };
    const deletion = this.engine.outcomes.bodyDeletion(outcome, binding);
    return (
      deletion &&
      (() =>
        deletion().then(
          () => 'deleted',
          () => 'left',
        ))
    );
  }

  /**
   * Unless the record says how long its attempt took, when it was settled is not known: at the latest, and as a rule long
   * before, at the attempt's hard deadline.
   */
  private notBefore(action: OperatorAction, fence: number, note: string | undefined): number {
    if (action !== 'reopen' && action !== 'delete') return 0;
    const beganAt = Math.floor(fence / 1_000);
    const { tookMs = this.protocol.lease.maxExecution } = annotationsIn(note);
    return beganAt + tookMs + this.operator.settledFor;
  }

  private async audit(entry: Omit<AuditEntry, 'at'>): Promise<void> {
    const { audit = this.log } = this.operator;
    await audit({ at: new Date(this.engine.clock.wallTime()), ...entry });
  }

  private async wasAudited(entry: Omit<AuditEntry, 'at' | 'phase'>): Promise<boolean> {
    try {
      await this.audit({ phase: 'result', ...entry });
      return true;
    } catch {
      // The act is done: the event says that the audit lacks it.
      return false;
    }
  }
}

/**
 * How many records a pass over all of them looks at in a second. A server of Redis needs ten to twenty microseconds for
 * each: less than a twentieth of its time.
 */
const PER_SECOND = 2_000;

/** Between two pages of a pass over all records: the server has requests to serve. */
export function pauseAfter(
  { scanned }: Pick<RecordPage, 'scanned'>,
  startedAt: number,
  clock: Clock,
): Promise<void> {
  return pauseUntil(startedAt, (scanned * 1_000) / PER_SECOND, clock);
}

/** As that of `outcome.retention`. */
const RETENTION = ['1ms', '365d'] as const;

const CANNOT_AMEND =
  'IdempotencyRecords needs a "store" whose records an operator can change; the given store has no amend(). Use the store for Redis, PostgreSQL or memory.';

const DROPS_OUTCOME: ReadonlySet<OperatorAction> = new Set(['reopen', 'redact', 'delete']);

const FINISHED = ['completed', 'failed'] as const;

/** To a record in which state. */
const ALLOWED: Readonly<Record<OperatorAction, readonly RecordRef['expected']['state'][]>> = {
  release: ['in_progress'],
  complete: ['in_progress', 'released'],
  reopen: FINISHED,
  redact: FINISHED,
  retain: FINISHED,
  delete: [...FINISHED, 'released'],
};

const ACT_OPTIONS: ReadonlySet<string> = new Set<keyof ActOptions>([
  ...(['actor', 'reason', 'evenIfRunning', 'nothingHappened'] as const),
  ...(['retention', 'with', 'operation'] as const),
]);

/** Before anything is read or done. @throws {@link IdempotencyOptionsError} */
export function checkActOptions(options: ActOptions): void {
  checkNames('an act', options, ACT_OPTIONS);
  const { actor, reason, evenIfRunning = false, nothingHappened = false } = options;
  checkText('actor', actor, 1, MAX_REASON);
  checkText('reason', reason, MIN_REASON, MAX_REASON);
  checkBoolean('evenIfRunning', evenIfRunning);
  checkBoolean('nothingHappened', nothingHappened);
}

function checkText(option: string, value: unknown, min: number, max: number): void {
  if (typeof value === 'string' && value.trim().length >= min && value.length <= max) return;
  throwOptionError(option, `a text of ${String(min)} to ${String(max)} characters`, typeof value);
}
