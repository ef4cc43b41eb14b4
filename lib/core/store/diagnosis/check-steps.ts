import { NOTE_PLACES, notePlace } from '../../record/record-key.js';
import { nodeClock, type Clock } from '../../util/clock.js';
import { isDoneWithin } from '../../util/time.js';
import { error, ok, warning, type Finding } from './finding.js';
import { Trial, unexpected, type Steps } from './trial.js';

/** For a notification. */
const TIMEOUT_MS = 2_000;
/** For all steps. */
const STEPS_TIMEOUT_MS = 6_000;
/** How long the record is kept. */
const KEPT_MS = 10_000;

/** Executes each step of the store, on a record of its own that is deleted, or expires soon. */
export class StepChecks {
  private readonly trial: Trial;

  /** @param pushRemedy - what notifications require of the server. */
  constructor(
    private readonly store: Steps,
    private readonly pushRemedy: string,
    private readonly clock: Clock = nodeClock,
  ) {
    this.trial = new Trial(store, STEPS_TIMEOUT_MS, KEPT_MS, clock);
  }

  /** @param describe - the text of an error. */
  async run(describe: (error: unknown) => string): Promise<Finding[]> {
    const notified = await this.listen();
    try {
      await this.execute();
    } catch (failure) {
      return [error('steps', describe(failure))];
    } finally {
      // Rejected steps may have written, too.
      await this.trial.forget();
    }
    return [
      ok(
        'steps',
        'begin, extend, inspect, complete, replay and release were executed on a record of the doctor.',
      ),
      (await notified?.())
        ? ok('push', 'A waiting duplicate is notified of the end of an operation.')
        : warning(
            'push',
            `A waiting duplicate is not notified of the end of an operation: it polls. ${this.pushRemedy}`,
          ),
    ];
  }

  /** @returns whether the notification arrives. */
  private async listen(): Promise<(() => Promise<boolean>) | undefined> {
    let arrived: () => void = () => undefined;
    const arrival = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const command = { timeoutMs: TIMEOUT_MS };
    const watching = this.store.watch(this.trial.recordKey, arrived, command);
    const stop = await watching.catch(() => undefined);
    if (stop === undefined) return undefined;
    return async () => {
      const isNotified = await isDoneWithin(TIMEOUT_MS, arrival, this.clock);
      stop();
      return isNotified;
    };
  }

  private async execute(): Promise<void> {
    const { store, trial } = this;
    await trial.release(await trial.begin());
    const lease = await trial.begin();
    const { timeoutMs } = trial;
    const timing = { leaseMs: KEPT_MS, recordRetentionMs: KEPT_MS, timeoutMs };
    const { kind } = await store.extend(lease, timing);
    if (kind !== 'ok') throw unexpected('extend', kind);
    const found = await store.inspect(trial.recordKey, { timeoutMs });
    if (found?.state !== 'in_progress') throw unexpected('inspect', found?.state);
    await trial.complete(lease, true);
    await trial.replay();
  }
}

/** Lists the services whose processes have run within a week. */
export async function checkServices(store: Steps): Promise<Finding> {
  const names = await notedServices(store, TIMEOUT_MS);
  const [first] = names;
  if (first === undefined) return ok('services', 'No service has used this store within a week.');
  if (names.length === 1) return ok('services', `1 service uses this store: ${first}.`);
  const count = names.length < NOTE_PLACES ? names.length : `At least ${names.length}`;
  return ok('services', `${count} services use this store: ${names.join(', ')}.`);
}

/** The names in a store's notes, sorted. */
export async function notedServices(store: Steps, timeoutMs: number): Promise<readonly string[]> {
  const places = Array.from({ length: NOTE_PLACES }, (_, place) => notePlace(place));
  const records = await Promise.all(places.map((key) => store.inspect(key, { timeoutMs })));
  const names = records.map((record) => record?.note).filter((name) => name !== undefined);
  // Twice if a place before its own became free.
  return [...new Set(names)].sort();
}
