import { IdempotencyEngine } from '../engine/idempotency-engine.js';
import type { OperationRequest } from '../operation/operation-request.js';
import { DEFAULT_LIMITS, type ResolvedProtocolOptions } from '../operation/options.js';
import { commandsOnly, IdempotencyEvents } from '../record/idempotency-events.js';
import { fingerprint } from '../record/fingerprint.js';
import { StoreUnavailableError } from '../errors/errors.js';

const MAX_RUN_MS = 3_600_000;
/** A tombstone is only needed for late commands of the previous runner. */
const TOMBSTONE_MS = 60_000;

/**
 * Runs work in one process at a time, with any store, by the lease of a record of its own. An advisory lock would need
 * a dedicated connection, which a pooler in transaction mode does not provide, and Redis has none. A process paused for
 * longer than its lease does not notice that another one runs: the work must be correct if two run it.
 */
export class SingleRunner {
  private readonly request: OperationRequest;
  private readonly engine: IdempotencyEngine;
  private lastError: Error | undefined;

  /** @param work - its name, reserved: no operation may have it. */
  constructor(
    { store, events: { counter }, clock, service }: IdempotencyEngine,
    work: string,
    options: ResolvedProtocolOptions,
  ) {
    // Lock events are internal: subscribers see those of operations.
    const events = new IdempotencyEvents(commandsOnly(counter), clock);
    events.subscribe((event) => {
      if (event.type === 'store_unavailable') this.lastError = event.error;
    });
    this.engine = new IdempotencyEngine(
      store,
      events,
      DEFAULT_LIMITS,
      undefined,
      undefined,
      clock,
      service,
    );
    this.request = this.engine.requestOf({
      fingerprint: fingerprint([work]),
      operation: work,
      scope: [],
      keyOperation: work,
      key: work,
      options: Object.freeze<ResolvedProtocolOptions>({
        ...options,
        outcome: { ...options.outcome, retention: TOMBSTONE_MS },
        duplicates: { ...options.duplicates, mode: 'reject' },
        lease: { ...options.lease, maxExecution: MAX_RUN_MS, onTakeover: 'run' },
        storeErrors: { ...options.storeErrors, whenUnavailable: 'reject' },
        transaction: false,
      }),
    });
  }

  get subject(): Pick<OperationRequest, 'operation' | 'recordKey'> {
    return this.request;
  }

  /**
   * Runs `work`, or returns `undefined` if another process does. Throws the store's error if it gave no reply. `work`
   * must stop when the signal is aborted: another process may be running it by then.
   */
  async runExclusively<Result>(
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result | undefined> {
    const decision = await this.engine.begin(this.request);
    if (decision.kind === 'run') {
      try {
        return await work(decision.attempt.signal);
      } finally {
        await decision.attempt.release();
      }
    }
    if (decision.kind === 'reject' && decision.reason === 'store_unavailable') {
      throw this.lastError ?? new StoreUnavailableError('The store is unavailable.');
    }
    return undefined;
  }
}
