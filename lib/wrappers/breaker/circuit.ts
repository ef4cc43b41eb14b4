import { EventEmitter } from 'node:events';
import type { BreakerState } from '../../core/record/events.js';
import { asError, hasCode, isRejection } from '../../core/errors/errors.js';
import { missingPeer } from '../../core/util/missing-peer.js';
import { requirePeer } from '../../core/util/peers.js';
import type { ResolvedBreakerOptions } from './breaker-options.js';

export interface CircuitObserver {
  /** @param cause - the failure that opened it. */
  opened(cause: unknown): void;
  halfOpen(): void;
  closed(): void;
}

/** Parts of the window. The oldest one is dropped at a time. */
const BUCKETS = 10;

/**
 * A circuit of opossum, which counts commands when they end. If it ran them, it would count pending ones as successes,
 * and one sent before an outage could close a half-open circuit. Its timers do not keep the process alive.
 */
export class Circuit {
  private readonly breaker: OpossumBreaker;
  private readonly window = new EventEmitter();
  private readonly forgetting: NodeJS.Timeout;
  /** Changes with the state. Commands of an earlier generation are not counted. */
  private generation = 0;
  private currentState: BreakerState = 'closed';
  private lastFailure: unknown;

  /** @param probe - a read without effect; rejects when the store does not reply. */
  constructor(
    Breaker: OpossumConstructor,
    options: ResolvedBreakerOptions,
    observer: CircuitObserver,
    probe: () => Promise<unknown>,
  ) {
    this.breaker = new Breaker((work) => work(), {
      // The store has timeouts.
      timeout: false,
      errorThresholdPercentage: options.errorThresholdPercentage,
      volumeThreshold: options.volumeThreshold,
      resetTimeout: options.probeInterval,
      rollingCountBuckets: BUCKETS,
      rotateBucketController: this.window,
      rollingPercentilesEnabled: false,
      enableSnapshots: false,
      errorFilter: (error) => !isOutage(error),
    });
    this.breaker.on('failure', (error) => {
      this.lastFailure = error;
    });
    this.breaker.on('open', () => {
      this.change('open');
      observer.opened(this.lastFailure);
    });
    this.breaker.on('halfOpen', () => {
      this.change('half_open');
      observer.halfOpen();
      this.fire(probe);
    });
    this.breaker.on('close', () => {
      // The outage is still in the window: without this, one failure would open the circuit again.
      for (let bucket = 0; bucket < BUCKETS; bucket += 1) this.forget();
      this.change('closed');
      observer.closed();
    });
    this.forgetting = setInterval(() => {
      this.forget();
    }, options.window / BUCKETS).unref();
  }

  /** Commands are to be rejected unless it is closed: `half_open` while a probe is pending. */
  get state(): BreakerState {
    return this.currentState;
  }

  /**
   * Sends the command, and counts its result unless the state has changed. An open circuit counts nothing. Returns the
   * store's own promise: another one would delay every reply.
   */
  count<Reply>(send: () => Promise<Reply>): Promise<Reply> {
    const { generation } = this;
    const counted = (work: () => Promise<unknown>) => {
      if (generation === this.generation) this.fire(work);
    };
    const sent = startedBy(send);
    sent.then(
      () => {
        counted(succeed);
      },
      (error: unknown) => {
        // Thrown, it is counted at once: the circuit is open before a caller sends its next command.
        counted(() => {
          throw asError(error);
        });
      },
    );
    return sent;
  }

  close(): void {
    clearInterval(this.forgetting);
    this.currentState = 'closed';
    this.breaker.shutdown();
  }

  private fire(work: () => Promise<unknown>): void {
    // The caller of the command has its error; the circuit has counted it.
    this.breaker.fire(work).catch(() => undefined);
  }

  private forget(): void {
    this.window.emit('rotate');
  }

  private change(state: BreakerState): void {
    this.generation += 1;
    this.currentState = state;
  }
}

/** What a store throws rejects, too. */
function startedBy<Reply>(send: () => Promise<Reply>): Promise<Reply> {
  try {
    return Promise.resolve(send());
  } catch (error) {
    return Promise.reject(asError(error));
  }
}

const SUCCESS = Promise.resolve();

function succeed(): Promise<unknown> {
  return SUCCESS;
}

/** Whether the store cannot be reached. A rejection, or a wrong configuration, comes from a store that replies. */
function isOutage(error: unknown): boolean {
  const isWithoutReply =
    hasCode(error, 'idempotency_store_unavailable') ||
    hasCode(error, 'idempotency_store_outcome_unknown');
  return isWithoutReply && !isRejection(error);
}

/** The part of opossum's circuit breaker that is used. Structural, so that no declaration requires the package. */
interface OpossumBreaker {
  fire(work: () => Promise<unknown>): Promise<unknown>;
  on(event: 'open' | 'halfOpen' | 'close', listener: () => void): unknown;
  on(event: 'failure', listener: (error: unknown) => void): unknown;
  shutdown(): void;
}

export interface OpossumOptions {
  readonly timeout: false;
  readonly errorThresholdPercentage: number;
  readonly volumeThreshold: number;
  readonly resetTimeout: number;
  readonly rollingCountBuckets: number;
  readonly rotateBucketController: EventEmitter;
  readonly rollingPercentilesEnabled: boolean;
  readonly enableSnapshots: boolean;
  readonly errorFilter: (error: unknown) => boolean;
}

export type OpossumConstructor = new (
  action: (work: () => Promise<unknown>) => Promise<unknown>,
  options: OpossumOptions,
) => OpossumBreaker;

/** @throws {@link IdempotencyOptionsError} when opossum is not installed. */
export async function loadOpossum(): Promise<OpossumConstructor> {
  try {
    const module = requirePeer('opossum') ?? (await import('opossum')).default;
    return module as OpossumConstructor;
  } catch (error) {
    throw missingPeer(error, 'opossum', 'The option "breaker" needs');
  }
}
