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
 * No request has this key: theirs are digests, of another length. Each probe has a new one: a fixed key would be in one
 * shard of a cluster, and without that shard every probe would fail.
 */
function newProbedRecord(): RecordKey {
  return `circuit-breaker-probe-${randomUUID()}` as RecordKey;
}

export interface BreakerStoreOptions extends ResolvedBreakerOptions {
  /** Timeout of a probe, in milliseconds. A store that is slower cannot serve begin either. */
  readonly probeTimeoutMs: number;
}

/**
 * A circuit breaker around a store. While the store does not reply, operations are rejected at once with
 * {@link StoreUnavailableError}, not after `commandTimeoutMs` each. It rejects {@link begin}, {@link inspect} and
 * {@link abandoned} only: the other commands belong to operations that are running or have had their effect. A probe
 * reads a record. It is never the begin of a request, which would wait for the probe, and whose key would stay blocked
 * if the reply were lost.
 */
export class BreakerStore extends IdempotencyStore {
  private readonly openings = new Openings();
  private readonly newCircuit: () => Circuit;
  private circuit: Circuit;
  private isClosed = false;

  /** @param notify - called on every change of state. */
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

  override async inspect(
    recordKey: RecordKey,
    command: Inspect,
  ): Promise<IdempotencyRecord | undefined> {
    this.rejectWhileOpen();
    return this.circuit.count(() => this.store.inspect(recordKey, command));
  }

  /** Not counted: best effort, not a sign of the store's state. */
  override watch(
    recordKey: RecordKey,
    onEnd: () => void,
    command: Watch,
  ): Promise<StopWatching | undefined> {
    return this.store.watch(recordKey, onEnd, command);
  }

  /** Not counted: a page takes longer than a command on one record, and no request waits for it. */
  override async abandoned(command: Abandoned): Promise<AbandonedPage | undefined> {
    this.rejectWhileOpen();
    return this.store.abandoned(command);
  }

  /** Not counted: it uses the application's own connections. */
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
        'The circuit breaker is open: too many commands to the store failed. Operations are rejected until a probe succeeds.',
      );
    }
  }
}
