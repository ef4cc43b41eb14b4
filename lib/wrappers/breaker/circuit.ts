import { EventEmitter } from 'node:events';
import { asError, hasCode, isRejection } from '../../core/util/errors.js';
import { missingPeer } from '../../core/util/missing-peer.js';
import type { ResolvedBreakerOptions } from './breaker-options.js';

/** Told of every change of the circuit's state. */
export interface CircuitObserver {
  /** @param cause - the failure that was the last straw. */
  opened(cause: unknown): void;
  halfOpen(): void;
  closed(): void;
}

/** Into how many parts the window is divided: the oldest is forgotten at a time. */
const BUCKETS = 10;

/**
 * opossum's circuit, told of commands when they have ended. Firing the commands themselves through it would
 * count those still out as if they had succeeded, and let one that was sent before an outage and ends after
 * it decide over a circuit that is half open.
 *
 * No timer of it keeps the process alive.
 */
export class Circuit {
  private readonly breaker: OpossumBreaker;
  private readonly window = new EventEmitter();
  private readonly forgetting: NodeJS.Timeout;
  /** Changes with the state: what began in an earlier one says nothing of the present. */
  private era = 0;
  private isRejecting = false;
  private lastFailure: unknown;

  /**
   * @param probe - asks the store for nothing; rejects when it does not answer.
   */
  constructor(
    Breaker: OpossumConstructor,
    options: ResolvedBreakerOptions,
    observer: CircuitObserver,
    probe: () => Promise<unknown>,
  ) {
    this.breaker = new Breaker((work) => work(), {
      // A store keeps the time of its commands itself.
      timeout: false,
      errorThresholdPercentage: options.errorThresholdPercentage,
      volumeThreshold: options.volumeThreshold,
      resetTimeout: options.probeIntervalMs,
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
      this.change(true);
      observer.opened(this.lastFailure);
    });
    this.breaker.on('halfOpen', () => {
      this.change(true);
      observer.halfOpen();
      void this.fire(probe);
    });
    this.breaker.on('close', () => {
      // Or one hiccup after an outage would open it again, for the outage still lies in the window.
      for (let bucket = 0; bucket < BUCKETS; bucket += 1) this.forget();
      this.change(false);
      observer.closed();
    });
    this.forgetting = setInterval(() => {
      this.forget();
    }, options.windowMs / BUCKETS).unref();
  }

  /** Whether commands that can be done without are to be refused: it is open, or the probe is still out. */
  get rejects(): boolean {
    return this.isRejecting;
  }

  /** Lets the command through, and counts how it ends unless the circuit has changed; an open one counts nothing. */
  async count<Reply>(send: () => Promise<Reply>): Promise<Reply> {
    const { era } = this;
    let reply: Reply;
    try {
      reply = await send();
    } catch (error) {
      if (era === this.era) void this.fire(() => Promise.reject(asError(error)));
      throw error;
    }
    if (era === this.era) void this.fire(() => Promise.resolve());
    return reply;
  }

  /** Nothing is counted or probed any more. */
  close(): void {
    clearInterval(this.forgetting);
    this.isRejecting = false;
    this.breaker.shutdown();
  }

  private async fire(work: () => Promise<unknown>): Promise<void> {
    try {
      await this.breaker.fire(work);
    } catch {
      // Whoever sent the command has its error; the circuit has drawn its conclusion.
    }
  }

  private forget(): void {
    this.window.emit('rotate');
  }

  private change(isRejecting: boolean): void {
    this.era += 1;
    this.isRejecting = isRejecting;
  }
}

/** Only what says that the store cannot be reached: a refusal, or a wrong set-up, comes from one that answers. */
function isOutage(error: unknown): boolean {
  const isWithoutReply =
    hasCode(error, 'idempotency_store_unavailable') ||
    hasCode(error, 'idempotency_store_outcome_unknown');
  return isWithoutReply && !isRejection(error);
}

/** What is used of opossum's circuit breaker: a structure, so that no declaration needs the package. */
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
    return (await import('opossum')).default;
  } catch (error) {
    throw missingPeer(error, 'opossum', 'The option "breaker" needs');
  }
}
