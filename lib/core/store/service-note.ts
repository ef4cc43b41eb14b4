import { fingerprint } from '../record/fingerprint.js';
import { newOwnerToken, NOTE_PLACES, notePlace } from '../record/record-key.js';
import type { Clock, ClockTimer } from '../util/clock.js';
import { asError } from '../errors/errors.js';
import { isDoneWithin, jittered } from '../util/time.js';
import { DelegatingStore } from './delegating-store.js';
import type { IdempotencyStore, StoreWarning } from './idempotency-store.js';

const KEPT_MS = 7 * 86_400_000;
/** Several times within {@link KEPT_MS}: a renewal that fails is made up for by the next one. */
const RENEWAL_MS = 86_400_000;
const LEASE_MS = 1_000;
/** For all commands of a renewal. */
const TIMEOUT_MS = 2_000;

/**
 * Keeps the name of a service in its store while a process of it runs, for the doctor. A note is a record in the first
 * place that is not another service's, whose fingerprint differs. It stays in progress, since an outcome could not be
 * renewed, and has no origin: the reconciler never lists it. It is renewed by one timer per process.
 */
export class ServiceNote {
  private readonly store: IdempotencyStore;
  private timer: ClockTimer | undefined;
  private isStopped = false;

  constructor(
    store: IdempotencyStore,
    private readonly service: string,
    private readonly clock: Clock,
    private readonly warned: (warning: StoreWarning) => void,
  ) {
    // A wrapper may count or reject commands.
    this.store = DelegatingStore.innermostOf(store);
  }

  /** Writes the note, or warns, and schedules the next renewal. Never rejects. */
  async renew(): Promise<void> {
    const { clock } = this;
    let problem = 'The store does not reply.';
    const writing = this.write().catch((error: unknown) => {
      problem = asError(error).message;
      throw error;
    });
    if (!(await isDoneWithin(TIMEOUT_MS, writing, clock)) && !this.isStopped) {
      this.warned({
        code: 'service_not_noted',
        message: `The store did not note the name of this service, which the doctor lists. Nothing else depends on it, and the next try follows within a day. ${problem}`,
      });
    }
    this.schedule();
  }

  /** Schedules the next renewal: between half a day and a day from now. */
  schedule(): void {
    if (this.isStopped) return;
    const { clock } = this;
    const again = () => void this.renew();
    this.timer = clock.setTimeout(again, jittered(RENEWAL_MS, clock), undefined);
    this.timer.unref();
  }

  stop(): void {
    this.isStopped = true;
    this.clock.clearTimeout(this.timer);
  }

  private async write(): Promise<void> {
    const { store, service, clock } = this;
    const dueAt = clock.now() + TIMEOUT_MS;
    const ofService = fingerprint([service]);
    for (let place = 0; place < NOTE_PLACES; place += 1) {
      const { kind } = await store.begin({
        recordKey: notePlace(place),
        token: newOwnerToken(clock),
        fingerprint: ofService,
        leaseMs: LEASE_MS,
        maxExecutionMs: LEASE_MS,
        recordRetentionMs: KEPT_MS,
        notAfter: 0,
        onExpiredLease: 'takeover',
        note: service,
        timeoutMs: Math.max(1, Math.ceil(dueAt - clock.now())),
      });
      // In progress: another process of this service has just renewed it.
      if (kind !== 'mismatch') return;
    }
  }
}
