import type { RecordKey, StoredRecord } from '../record/record.js';
import { nodeClock, type Clock } from '../util/clock.js';
import {
  errorTypeOf,
  isIdempotencyError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from '../errors/errors.js';
import { jitteredPause } from '../util/time.js';
import { compareAndSet, type RecordSnapshot } from './compare-and-set.js';
import type * as Store from '../record/commands.js';
import * as transitions from './record-transitions.js';
import { TransitionStore, type Decide, type StepCommand } from './transition-store.js';

/** A record as it was loaded, and what shows later whether it has changed. */
export interface LoadedRecord<Version> extends RecordSnapshot {
  /** `undefined` if there is none. One that has expired may be there until the database deletes it. */
  readonly record: StoredRecord | undefined;
  /**
   * Whatever the database compares: a number, an ETag; also for a record that is not there. Each write has a version that
   * this key never had before, not even before a deletion.
   */
  readonly version: Version;
  /**
   * Microseconds since the epoch, an integer, by one clock for all processes: the database's own, read with the record.
   * Where it has none, leases and retentions are as exact as the processes' clocks agree.
   */
  readonly nowUs: number;
}

const FIRST_PAUSE_MS = 1;
const LONGEST_PAUSE_MS = 25;

/**
 * The base of a store on a database that writes a record only if it is unchanged: compare-and-set, a conditional write, an
 * optimistic lock. Implement {@link load}, {@link saveIf} and {@link close}; the protocol is that of {@link transitions}.
 * Override `open`, `watch`, `abandoned`, `list` and `transactional` where the database can do more.
 *
 * After a lost race both are called again, until `timeoutMs` of the command is over. An error of the driver, or no reply
 * in time, becomes {@link StoreUnavailableError} from `load`, which writes nothing, and {@link StoreOutcomeUnknownError}
 * from `saveIf`. Throw these two, or {@link StoreConfigurationError}, where the driver tells more.
 *
 * @typeParam Version - see {@link LoadedRecord.version}.
 */
export abstract class ConditionalStore<Version> extends TransitionStore {
  /** Reads the record from the primary, with its version and the clock. */
  protected abstract load(recordKey: RecordKey): Promise<LoadedRecord<Version>>;

  /**
   * Writes the record, in one atomic step, if it still has this version, and gives it another one. The database may
   * delete it from `record.expiresAt` on, not before.
   * @returns `false` if it has another version, or was created or deleted meanwhile: then nothing is written.
   */
  protected abstract saveIf(
    recordKey: RecordKey,
    version: Version,
    record: StoredRecord,
  ): Promise<boolean>;

  override inspect(
    recordKey: RecordKey,
    command: Store.Inspect,
  ): Promise<Store.IdempotencyRecord | undefined> {
    return this.step(recordKey, command, (record, nowUs) => ({
      reply: transitions.inspect(record, nowUs),
      record,
    }));
  }

  /** @internal */
  protected override step<Reply>(
    recordKey: RecordKey,
    { timeoutMs }: StepCommand,
    decide: Decide<Reply>,
    clock = nodeClock,
  ): Promise<Reply> {
    const dueAt = clock.now() + timeoutMs;
    const leftMs = () => Math.max(0, dueAt - clock.now());
    let pauseMs = FIRST_PAUSE_MS;
    return compareAndSet({
      read: () => replyWithin(leftMs(), this.load(recordKey), StoreUnavailableError, clock),
      decide,
      write: ({ record }, { version }) => {
        const saving = this.saveIf(recordKey, version, record);
        return replyWithin(leftMs(), saving, StoreOutcomeUnknownError, clock);
      },
      again: async () => {
        if (leftMs() < pauseMs) {
          throw new StoreUnavailableError('Other commands kept changing the record.');
        }
        await jitteredPause(pauseMs, clock);
        pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
      },
    });
  }
}

/** @param Failure - what an error that is not the library's, or no reply in time, says of the command. */
function replyWithin<Reply>(
  ms: number,
  sent: Promise<Reply>,
  Failure: typeof StoreUnavailableError | typeof StoreOutcomeUnknownError,
  clock: Clock,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const late = () => {
      reject(new Failure('The database did not reply in time.'));
    };
    const timer = clock.setTimeout(late, ms, undefined);
    sent
      .finally(() => {
        clock.clearTimeout(timer);
      })
      .then(resolve, (error: unknown) => {
        const type = errorTypeOf(error) ?? 'unknown';
        const message = `The database replied with an error: ${type}.`;
        reject(isIdempotencyError(error) ? error : new Failure(message, { cause: error }));
      });
  });
}
