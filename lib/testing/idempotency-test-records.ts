import type { OutgoingHttpHeaders } from 'node:http';
import type { IdempotencyEngine } from '../core/engine/idempotency-engine.js';
import type { OperationRequest } from '../core/operation/operation-request.js';
import { inProgressRetentionMs } from '../core/operation/options.js';
import type { IdempotencyEvent } from '../core/record/events.js';
import type { IdempotencyEvents } from '../core/record/idempotency-events.js';
import type { OutcomeCodec } from '../core/record/outcome-codec.js';
import type { FinishedState, Outcome, RecordKey } from '../core/record/record.js';
import { newOwnerToken } from '../core/record/record-key.js';
import type { Scope } from '../core/record/scope.js';
import type { Begin, IdempotencyRecord } from '../core/record/commands.js';
import type { Clock } from '../core/util/clock.js';
import { hasCode } from '../core/errors/errors.js';
import { MemoryIdempotencyStore } from '../stores/memory/memory-idempotency-store.js';
import { valueFormat } from '../transports/call/outcome-format.js';
import { decodeResponse } from '../transports/http/response/http-response.js';

/** The outcome of an operation, as it is replayed. */
export type IdempotencyTestOutcome =
  /** Of a route. `body` is the parsed value if it is JSON, otherwise a `Buffer`. */
  | {
      readonly kind: 'response';
      readonly status: number;
      readonly headers: OutgoingHttpHeaders;
      readonly body: unknown;
    }
  /** Of anything else. Values that a message or gateway handler emitted are an array, in order. */
  | { readonly kind: 'value'; readonly value: unknown }
  /** The kept error. */
  | { readonly kind: 'failure'; readonly error: unknown };

/** One record of {@link IdempotencyTestRecords}. */
export interface IdempotencyTestRecord extends Pick<
  IdempotencyRecord,
  'state' | 'attempt' | 'takeovers'
> {
  /** The operation's name: `Class.method` by default. If several share one key, the first. */
  readonly operation: string;
  /** The idempotency key. */
  readonly key: string;
  /** The caller who owns the key. */
  readonly scope: Scope;
  /** How often the operation ran. */
  readonly executions: number;
  /** How often its outcome was replayed. */
  readonly replays: number;
  /**
   * The outcome of a `completed` or `failed` record. `undefined` if it has none: of an event, a value that was too
   * large, or one that another codec than the module's has encoded.
   */
  readonly outcome: IdempotencyTestOutcome | undefined;
}

/** A request to the engine, by its record key. */
interface Known extends Pick<OperationRequest, 'operation' | 'key' | 'scope'> {
  executions: number;
  replays: number;
}

/**
 * Shows the records of an application with `IdempotencyTestingModule.inMemory()`. Get it from the application:
 * `app.get(IdempotencyTestRecords)`.
 */
export class IdempotencyTestRecords {
  private readonly known = new Map<RecordKey, Known>();
  private readonly abandonedKeys = new Set<string>();

  /** @internal */
  constructor(
    private readonly store: TestStore,
    private readonly codec: OutcomeCodec,
    events: IdempotencyEvents,
    private readonly engine: IdempotencyEngine,
  ) {
    events.subscribe((event) => {
      this.count(event);
    });
    // Neither events nor commands of the store contain the key.
    const begin = engine.begin.bind(engine);
    engine.begin = (request) => {
      this.note(request);
      return begin(request);
    };
  }

  /** All records that have not expired, in the order of their keys' first requests. */
  async list(): Promise<IdempotencyTestRecord[]> {
    const records: IdempotencyTestRecord[] = [];
    for (const [recordKey, known] of this.known) {
      const record = await this.store.inspect(recordKey);
      if (record === undefined) continue;
      const { state, attempt, takeovers } = record;
      const outcome = await this.outcomeOf(recordKey, known.scope, record);
      records.push({ ...known, state, attempt, takeovers, outcome });
    }
    return records;
  }

  /** Deletes all records. Call it while no operation runs. */
  clear(): void {
    this.store.clear();
    this.known.clear();
    this.abandonedKeys.clear();
  }

  /**
   * Makes the next request with this key find an expired lease without outcome, as after a crash, even if the key has
   * an outcome: `onTakeover` decides, and the request's attempt is the second. Has no effect while the operation runs.
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
    const { duration: leaseMs, maxExecution: maxExecutionMs } = options.lease;
    this.store.beginInThePast({
      recordKey,
      token: newOwnerToken(this.engine.clock),
      fingerprint,
      leaseMs,
      maxExecutionMs,
      recordRetentionMs: inProgressRetentionMs(options),
      notAfter: 0,
      onExpiredLease: 'takeover',
      timeoutMs: options.storeErrors.commandTimeout,
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

  private async outcomeOf(
    recordKey: RecordKey,
    scope: Scope,
    { state, fingerprint, outcome, retentionLeftMs }: IdempotencyRecord,
  ): Promise<IdempotencyTestOutcome | undefined> {
    if (outcome === undefined) return undefined;
    const binding = { recordKey, fingerprint, scope, state: state as FinishedState };
    const { outcomes } = this.engine;
    return this.read(await outcomes.unpack(outcome, binding, undefined, retentionLeftMs));
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

/** Records in memory, by the clock of the engine. */
export class TestStore extends MemoryIdempotencyStore {
  private readonly past: { ms: number };

  constructor(clock: Clock) {
    const past = { ms: 0 };
    super({ now: () => clock.wallTime() - past.ms });
    this.past = past;
  }

  /** At once: a test may drive the timers of the application, and no time passes between command and reply. */
  protected override deliver(reply: () => void): void {
    reply();
  }

  /** Begins so long ago that the lease has just ended, replacing an ended record. */
  beginInThePast(command: Begin): void {
    this.forgetEnded(command.recordKey);
    this.past.ms = command.leaseMs + 1;
    // A command is executed before it returns.
    void this.begin(command);
    this.past.ms = 0;
  }
}

function jsonOr(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return body;
  }
}
