import { randomUUID } from 'node:crypto';
import type { BreakerEvent } from '../../core/record/events.js';
import type { Lease, RecordKey } from '../../core/record/record.js';
import {
  IdempotencyStore,
  type Abandoned,
  type AbandonedPage,
  type Begin,
  type BeginReply,
  type Complete,
  type CompleteReply,
  type Extend,
  type ExtendReply,
  type IdempotencyRecord,
  type Inspect,
  type Release,
  type ReleaseReply,
  type StopWatching,
  type StoreObserver,
  type StoreWarning,
  type Watch,
} from '../../core/store/idempotency-store.js';
import { Openings } from '../../core/store/openings.js';
import type { TransactionalRecords } from '../../core/store/transactional-records.js';
import { asError, StoreUnavailableError } from '../../core/util/errors.js';
import type { ResolvedBreakerOptions } from './breaker-options.js';
import { Circuit, type OpossumConstructor } from './circuit.js';

/**
 * No client can have it: a client's is a digest, of another length. A new one for each probe: one and the same
 * would lie on one shard of a cluster, and as long as that is away no probe would be answered.
 */
function newProbedRecord(): RecordKey {
  return `circuit-breaker-probe-${randomUUID()}` as RecordKey;
}

export interface BreakerStoreOptions extends ResolvedBreakerOptions {
  /** Milliseconds that a probe may take: a store that needs longer is of no use to begin either. */
  readonly probeTimeoutMs: number;
}

/**
 * A circuit breaker around a store: while that does not answer, operations are refused at once instead of
 * after `commandTimeoutMs` each. Only {@link begin} and {@link inspect} are refused. The others speak for
 * operations that run or have had their effect, and are sent whatever the state.
 *
 * The store is probed by reading a record, never with the begin of a request: that one would pay for the
 * probe with its time, and a reply that is lost would leave its key blocked.
 */
export class BreakerStore extends IdempotencyStore {
  private readonly openings = new Openings();
  private readonly newCircuit: () => Circuit;
  private circuit: Circuit;
  private isClosed = false;

  /** @param notify - hears of every change of state. */
  constructor(
    private readonly store: IdempotencyStore,
    Breaker: OpossumConstructor,
    options: BreakerStoreOptions,
    notify: (event: BreakerEvent) => void,
  ) {
    super();
    const observer = {
      opened: (cause: unknown) => {
        notify({ type: 'breaker_opened', error: asError(cause) });
      },
      halfOpen: () => {
        notify({ type: 'breaker_half_open' });
      },
      closed: () => {
        notify({ type: 'breaker_closed' });
      },
    };
    const probe = () => store.inspect(newProbedRecord(), { timeoutMs: options.probeTimeoutMs });
    this.newCircuit = () => new Circuit(Breaker, options, observer, probe);
    this.circuit = this.newCircuit();
  }

  override async open(observer?: StoreObserver): Promise<readonly StoreWarning[]> {
    const warnings = await this.store.open(observer);
    this.openings.add(observer);
    if (this.isClosed) this.circuit = this.newCircuit();
    this.isClosed = false;
    return warnings;
  }

  /** @throws {@link StoreUnavailableError} at once while the circuit is open. */
  override async begin(command: Begin): Promise<BeginReply> {
    this.rejectWhileOpen();
    return this.circuit.count(() => this.store.begin(command));
  }

  override extend(lease: Lease, command: Extend): Promise<ExtendReply> {
    return this.circuit.count(() => this.store.extend(lease, command));
  }

  override complete(lease: Lease, command: Complete): Promise<CompleteReply> {
    return this.circuit.count(() => this.store.complete(lease, command));
  }

  override release(lease: Lease, command: Release): Promise<ReleaseReply> {
    return this.circuit.count(() => this.store.release(lease, command));
  }

  /** @throws {@link StoreUnavailableError} at once while the circuit is open. */
  override async inspect(
    recordKey: RecordKey,
    command: Inspect,
  ): Promise<IdempotencyRecord | undefined> {
    this.rejectWhileOpen();
    return this.circuit.count(() => this.store.inspect(recordKey, command));
  }

  /** Not counted: it is best effort, and says little of the store. */
  override watch(
    recordKey: RecordKey,
    onEnd: () => void,
    command: Watch,
  ): Promise<StopWatching | undefined> {
    return this.store.watch(recordKey, onEnd, command);
  }

  /**
   * Not counted: a page takes longer than a step on one record, and nobody waits for it.
   *
   * @throws {@link StoreUnavailableError} at once while the circuit is open.
   */
  override async abandoned(command: Abandoned): Promise<AbandonedPage | undefined> {
    this.rejectWhileOpen();
    return this.store.abandoned(command);
  }

  /** Not counted: it speaks for the application's own connections. */
  override get transactional(): TransactionalRecords | undefined {
    return this.store.transactional;
  }

  override async close(observer?: StoreObserver): Promise<void> {
    if (this.openings.remove(observer)) {
      this.isClosed = true;
      this.circuit.close();
    }
    await this.store.close(observer);
  }

  private rejectWhileOpen(): void {
    if (this.circuit.rejects) {
      throw new StoreUnavailableError(
        'The circuit breaker is open: the store has not answered, and is asked again by a probe only.',
      );
    }
  }
}
