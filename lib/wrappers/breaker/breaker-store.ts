import type { BreakerEvent, BreakerState } from '../../core/record/events.js';
import type { Lease, RecordKey } from '../../core/record/record.js';
import { newProbeKey } from '../../core/record/record-key.js';
import { nodeClock } from '../../core/util/clock.js';
import { DelegatingStore } from '../../core/store/delegating-store.js';
import type * as Store from '../../core/record/commands.js';
import type {
  IdempotencyStore,
  StoreObserver,
  StoreWarning,
} from '../../core/store/idempotency-store.js';
import { Openings } from '../../core/store/openings.js';
import { asError, StoreUnavailableError } from '../../core/errors/errors.js';
import type { ResolvedBreakerOptions } from './breaker-options.js';
import { Circuit, type OpossumConstructor } from './circuit.js';

export interface BreakerStoreOptions extends ResolvedBreakerOptions {
  /** Timeout of a probe, in milliseconds. A store that is slower cannot serve begin either. */
  readonly probeTimeoutMs: number;
}

/**
 * A circuit breaker around a store. While the store does not reply, operations are rejected at once with
 * {@link StoreUnavailableError}, not after `storeErrors.commandTimeout` each. It rejects {@link begin}, {@link inspect},
 * {@link abandoned}, {@link list} and {@link amend} only: the other commands belong to operations that are running or have had their effect. It does not
 * count {@link watch}, which is best effort, nor {@link transactional}, which uses the application's own connections. A
 * probe reads a record. It is never the begin of a request, which would wait for the probe, and whose key would stay
 * blocked if the reply were lost.
 */
export class BreakerStore extends DelegatingStore {
  private readonly openings = new Openings();
  private readonly newCircuit: () => Circuit;
  private circuit: Circuit;
  private isClosed = false;

  /** @param notify - called on every change of state. */
  constructor(
    store: IdempotencyStore,
    Breaker: OpossumConstructor,
    options: BreakerStoreOptions,
    notify: (event: BreakerEvent) => void,
  ) {
    super(store);
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
    const probe = () =>
      store.inspect(newProbeKey(nodeClock), { timeoutMs: options.probeTimeoutMs });
    this.newCircuit = () => new Circuit(Breaker, options, observer, probe);
    this.circuit = this.newCircuit();
  }

  override get breaker(): BreakerState {
    return this.circuit.state;
  }

  override async open(observer?: StoreObserver): Promise<readonly StoreWarning[]> {
    const warnings = await this.store.open(observer);
    this.openings.add(observer);
    if (this.isClosed) this.circuit = this.newCircuit();
    this.isClosed = false;
    return warnings;
  }

  override begin(command: Store.Begin): Promise<Store.BeginReply> {
    return this.rejectedWhileOpen() ?? this.circuit.count(() => this.store.begin(command));
  }

  override extend(lease: Lease, command: Store.Extend): Promise<Store.ExtendReply> {
    return this.circuit.count(() => this.store.extend(lease, command));
  }

  override complete(lease: Lease, command: Store.Complete): Promise<Store.CompleteReply> {
    return this.circuit.count(() => this.store.complete(lease, command));
  }

  override release(lease: Lease, command: Store.Release): Promise<Store.ReleaseReply> {
    return this.circuit.count(() => this.store.release(lease, command));
  }

  override inspect(
    recordKey: RecordKey,
    command: Store.Inspect,
  ): Promise<Store.IdempotencyRecord | undefined> {
    return (
      this.rejectedWhileOpen() ?? this.circuit.count(() => this.store.inspect(recordKey, command))
    );
  }

  /** Not counted: a page takes longer than a command on one record, and no request waits for it. */
  override async abandoned(command: Store.Abandoned): Promise<Store.AbandonedPage | undefined> {
    return this.rejectedWhileOpen() ?? this.store.abandoned(command);
  }

  /** As {@link abandoned}. */
  override async list(command: Store.List): Promise<Store.RecordPage | undefined> {
    return this.rejectedWhileOpen() ?? this.store.list(command);
  }

  override amend(command: Store.Amend): Promise<Store.AmendReply | undefined> {
    return this.rejectedWhileOpen() ?? this.circuit.count(() => this.store.amend(command));
  }

  override async close(observer?: StoreObserver): Promise<void> {
    if (this.openings.remove(observer)) {
      this.isClosed = true;
      this.circuit.close();
    }
    await this.store.close(observer);
  }

  private rejectedWhileOpen(): Promise<never> | undefined {
    if (this.circuit.state === 'closed') return undefined;
    return Promise.reject(
      new StoreUnavailableError(
        'The circuit breaker is open: too many commands to the store failed. Operations are rejected until a probe succeeds.',
      ),
    );
  }
}
