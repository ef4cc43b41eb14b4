import { newProbeKey, NOTE_PLACES, notePlace } from '../../record/record-key.js';
import { nodeClock, type Clock } from '../../util/clock.js';
import { isDoneWithin } from '../../util/time.js';
import { error, messageOf, ok, warning, type Finding } from './finding.js';
import { checkLatency } from './measure.js';
import { Trial, unexpected, type Steps } from './trial.js';

/** For a notification. */
const TIMEOUT_MS = 2_000;
/** For all steps. */
const STEPS_TIMEOUT_MS = 6_000;
/** How long the record is kept. */
const KEPT_MS = 10_000;

/**
 * What every store can run on itself: its steps, on a record that is deleted or expires soon, the notification of their
 * end, the services and the latency.
 * @param pushRemedy - what notifications require.
 * @returns the error after which the rest was left out.
 */
export async function* checkSteps(
  store: Steps,
  pushRemedy: string,
  clock: Clock = nodeClock,
): AsyncGenerator<Finding, Finding | undefined> {
  const trial = new Trial(store, STEPS_TIMEOUT_MS, KEPT_MS, clock);
  let arrived: () => void = () => undefined;
  const arrival = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  const watching = store.watch(trial.recordKey, arrived, { timeoutMs: TIMEOUT_MS });
  const stop = await watching.catch(() => undefined);
  const ask = () => store.inspect(newProbeKey(clock), { timeoutMs: TIMEOUT_MS });
  let check = 'steps';
  try {
    await execute(store, trial);
    yield ok(
      'steps',
      'begin, extend, inspect, complete, replay and release were executed on a record of the doctor.',
    );
    const isNotified = stop !== undefined && (await isDoneWithin(TIMEOUT_MS, arrival, clock));
    yield isNotified
      ? ok('push', 'A waiting duplicate is notified of the end of an operation.')
      : warning(
          'push',
          `A waiting duplicate is not notified of the end of an operation: it polls. ${pushRemedy}`,
        );
    check = 'connection';
    yield await checkServices(store);
    yield await checkLatency(ask, clock);
    return undefined;
  } catch (failure) {
    const failed = error(check, messageOf(failure));
    yield failed;
    return failed;
  } finally {
    stop?.();
    // Rejected steps may have written, too.
    await trial.forget();
  }
}

async function execute(store: Steps, trial: Trial): Promise<void> {
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

/** Lists the services whose processes have run within a week. */
async function checkServices(store: Steps): Promise<Finding> {
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
