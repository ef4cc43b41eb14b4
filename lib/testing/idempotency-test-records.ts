import type { OutgoingHttpHeaders } from 'node:http';
import type { IdempotencyEngine } from '../core/engine/idempotency-engine.js';
import type { OperationRequest } from '../core/operation/operation-request.js';
import { inProgressRetentionMs } from '../core/operation/options.js';
import type { IdempotencyEvent, IdempotencyEvents } from '../core/record/events.js';
import type { OutcomeCodec } from '../core/record/outcome-codec.js';
import type { Outcome, RecordKey } from '../core/record/record.js';
import { newOwnerToken } from '../core/record/record-key.js';
import type { Begin, IdempotencyRecord } from '../core/store/idempotency-store.js';
import { hasCode } from '../core/util/errors.js';
import { checkInteger } from '../core/util/option-checks.js';
import { MemoryIdempotencyStore } from '../stores/memory/memory-idempotency-store.js';
import { valueFormat } from '../transports/call/outcome-format.js';
import { decodeResponse } from '../transports/http/response/http-response.js';

/** What an operation has ended with, as it is replayed. */
export type IdempotencyTestOutcome =
  /** Of a route. `body` is what JSON says where it is JSON, and a `Buffer` where it is not. */
  | {
      readonly kind: 'response';
      readonly status: number;
      readonly headers: OutgoingHttpHeaders;
      readonly body: unknown;
    }
  /** Of anything else. All that a message's or a gateway's handler has emitted, in order, as an array. */
  | { readonly kind: 'value'; readonly value: unknown }
  /** What was thrown, where that is kept. */
  | { readonly kind: 'failure'; readonly error: unknown };

/** One record of {@link IdempotencyTestRecords}. */
export interface IdempotencyTestRecord extends Pick<
  IdempotencyRecord,
  'state' | 'attempt' | 'takeovers'
> {
  /** The operation's name: `Class.method`, unless it has one of its own. Of several under one key, the first. */
  readonly operation: string;
  /** The idempotency key. */
  readonly key: string;
  /** Whose key it is. */
  readonly scope: readonly (string | number)[];
  /** How often the operation was let run. */
  readonly executions: number;
  /** How often its outcome was given instead. */
  readonly replays: number;
  /**
   * Once it is `completed` or `failed`. `undefined` where only the fact is kept: the outcome of an event, one that was too
   * large, or one that is written by a codec which is not the module's.
   */
  readonly outcome: IdempotencyTestOutcome | undefined;
}

/** What the engine was asked for, by the key of its record. */
interface Known extends Pick<OperationRequest, 'operation' | 'key' | 'scope'> {
  executions: number;
  replays: number;
}

/**
 * The records of an application with `IdempotencyTestingModule.inMemory()`, to look at, and their clock. Get it from the
 * application: `app.get(IdempotencyTestRecords)`.
 */
export class IdempotencyTestRecords {
  private readonly known = new Map<RecordKey, Known>();
  private readonly abandonedKeys = new Set<string>();

  /** @internal */
  constructor(
    private readonly store: TestStore,
    private readonly codec: OutcomeCodec,
    events: IdempotencyEvents,
    engine: IdempotencyEngine,
  ) {
    events.subscribe((event) => {
      this.count(event);
    });
    // No event says which key it is about, and no command of the store.
    const begin = engine.begin.bind(engine);
    engine.begin = (request) => {
      this.note(request);
      return begin(request);
    };
  }

  /** All records that have not expired, in the order in which their keys came first. */
  async list(): Promise<IdempotencyTestRecord[]> {
    const records: IdempotencyTestRecord[] = [];
    for (const [recordKey, known] of this.known) {
      const record = await this.store.inspect(recordKey);
      if (record === undefined) continue;
      const { state, attempt, takeovers, outcome } = record;
      records.push({ ...known, state, attempt, takeovers, outcome: outcome && this.read(outcome) });
    }
    return records;
  }

  /** Forgets all records, as if no key had ever come. Of use while no operation runs. */
  clear(): void {
    this.store.clear();
    this.known.clear();
    this.abandonedKeys.clear();
  }

  /**
   * Moves the clock by which records expire and leases end; nothing has to wait for it. The timers of this process are
   * not moved: the signal of a running attempt, its heartbeat, duplicates that wait, `Retry-After`. A record whose attempt
   * this very process still runs is not taken over, however long its lease is over: see {@link abandon}.
   *
   * @param ms - a whole number of milliseconds, 0 or more.
   * @throws {@link IdempotencyOptionsError} for anything else.
   */
  advanceBy(ms: number): void {
    checkInteger('ms', ms, 0, Number.MAX_SAFE_INTEGER);
    this.store.clock.aheadMs += ms;
  }

  /**
   * Has the next request with this key find what a process leaves that died while it ran the operation: a lease that is
   * over, and no outcome, also where the key has had one. The option `onTakeover` decides, and the request's own attempt
   * is the second. Of no effect on a key whose operation is under way.
   */
  abandon(key: string): void {
    this.abandonedKeys.add(key);
  }

  private note(request: OperationRequest): void {
    const { recordKey, operation, key, scope } = request;
    const isAbandoned = this.abandonedKeys.delete(key);
    if (isAbandoned || !this.known.has(recordKey)) {
      this.known.set(recordKey, { operation, key, scope, executions: 0, replays: 0 });
    }
    if (isAbandoned) this.leaveAbandoned(request);
  }

  private leaveAbandoned({ recordKey, fingerprint, options }: OperationRequest): void {
    const { leaseMs, maxExecutionMs } = options;
    this.store.beginInThePast({
      recordKey,
      token: newOwnerToken(),
      fingerprint,
      leaseMs,
      maxExecutionMs,
      recordRetentionMs: inProgressRetentionMs(options),
      notAfter: 0,
      onExpiredLease: 'takeover',
      timeoutMs: options.commandTimeoutMs,
    });
  }

  private count({ type, recordKey }: IdempotencyEvent): void {
    const known = recordKey && this.known.get(recordKey);
    if (known === undefined) return;
    if (type === 'acquired' || type === 'takeover') known.executions += 1;
    // It was let run, and `onTakeover` has found what it would have done.
    else if (type === 'recovered') known.executions -= 1;
    else if (type === 'replayed') known.replays += 1;
  }

  private read(outcome: Outcome): IdempotencyTestOutcome | undefined {
    const response = decodeResponse(outcome);
    if (response !== undefined) {
      const { status, headers, body } = response;
      return { kind: 'response', status, headers, body: jsonOr(Buffer.from(body)) };
    }
    try {
      return valueFormat(this.codec).decode(outcome);
    } catch (error) {
      if (hasCode(error, 'idempotency_response_not_kept')) return undefined;
      throw error;
    }
  }
}

/** Records in memory, by a clock that a test moves. */
export class TestStore extends MemoryIdempotencyStore {
  readonly clock: { aheadMs: number };

  constructor() {
    const clock = { aheadMs: 0 };
    super({ now: () => Date.now() + clock.aheadMs });
    this.clock = clock;
  }

  /** Begins so long ago that the lease is just over, in the place of what has ended since. */
  beginInThePast(command: Begin): void {
    this.forgetEnded(command.recordKey);
    const agoMs = command.leaseMs + 1;
    this.clock.aheadMs -= agoMs;
    // A command is executed before it returns.
    void this.begin(command);
    this.clock.aheadMs += agoMs;
  }
}

function jsonOr(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return body;
  }
}
