import { IdempotencyEngine } from '../engine/idempotency-engine.js';
import type { OperationRequest } from '../operation/operation-request.js';
import { ENGINE_DEFAULTS, type ResolvedProtocolOptions } from '../operation/options.js';
import { IdempotencyEvents } from '../record/events.js';
import { fingerprint } from '../record/fingerprint.js';
import { recordKey } from '../record/record-key.js';
import type { IdempotencyStore } from '../store/idempotency-store.js';
import { StoreUnavailableError } from '../util/errors.js';

/** Whoever has the turn for so long gives it back, at the next opportunity. */
const MAX_RUN_MS = 3_600_000;
/** A tombstone is of no use but to late commands of whoever had the turn. */
const TOMBSTONE_MS = 60_000;

/**
 * Lets one process at a time do a piece of work, on whatever store: by a record of its own in that store, with a
 * lease that is kept while the work goes on. An advisory lock would need a connection for itself, which a pooler
 * in transaction mode does not give, and Redis has none.
 *
 * A process that stands still for longer than its lease does not know that another has the turn. So the work has to
 * be right with two at it, too; the turn only saves them the trouble.
 */
export class SingleRunner {
  private readonly request: OperationRequest;
  private readonly engine: IdempotencyEngine;
  private lastError: Error | undefined;

  /**
   * @param work - its name, reserved: no operation is called so.
   * @param options - for lease and time-outs.
   */
  constructor(store: IdempotencyStore, work: string, options: ResolvedProtocolOptions) {
    // Who comes when is of no interest to those who listen to operations.
    const events = new IdempotencyEvents();
    events.subscribe((event) => {
      if (event.type === 'store_unavailable') this.lastError = event.error;
    });
    this.engine = new IdempotencyEngine(store, events, ENGINE_DEFAULTS);
    const scope: OperationRequest['scope'] = [];
    this.request = {
      recordKey: recordKey({ scope, operation: work, key: work }),
      fingerprint: fingerprint([work]),
      operation: work,
      scope,
      key: work,
      options: Object.freeze<ResolvedProtocolOptions>({
        ...options,
        maxExecutionMs: MAX_RUN_MS,
        retentionMs: TOMBSTONE_MS,
        whenInProgress: 'reject',
        onTakeover: 'run',
        onStoreUnavailable: 'reject',
        transactional: false,
      }),
    };
  }

  /** For events about the work as a whole. */
  get subject(): Pick<OperationRequest, 'operation' | 'recordKey'> {
    return this.request;
  }

  /**
   * Does `work` if it is this process' turn, and gives the turn back.
   *
   * @param work - is told by the signal to come to an end: the turn is another's by now, or may be.
   * @returns `undefined` where another process has the turn.
   * @throws what kept the store from answering, and whatever `work` throws.
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
      throw this.lastError ?? new StoreUnavailableError('The store gave no reason.');
    }
    return undefined;
  }
}
