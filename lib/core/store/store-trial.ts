import { nodeClock, type Clock } from '../util/clock.js';
import { asError, hasCode, StoreUnavailableError } from '../errors/errors.js';
import { isDoneWithin } from '../util/time.js';
import { DelegatingStore } from './delegating-store.js';
import { Trial } from './diagnosis/trial.js';
import type { IdempotencyStore, StoreWarning } from './idempotency-store.js';

const TIMEOUT_MS = 2_000;
/** Longer than all steps take. */
const KEPT_MS = 4_000;
/** A store ends its commands itself, and then knows more about the reason. */
const GRACE_MS = 250;

function noReply() {
  return { warning: undefined, error: new StoreUnavailableError('The store does not reply.') };
}

/**
 * Executes begin, release, complete and replay at the start of an application, on a record that is deleted, or expires in seconds. A
 * wrapper's own commands are not tried: it may count them. Nor are those of the memory store, which depend on nothing
 * outside of the process, and whose `maxRecords` the record would take part of.
 * @returns a warning if the steps failed for a reason that may pass, or if the server deletes no record.
 * @throws {@link StoreConfigurationError} if they cannot succeed until the configuration is fixed.
 */
export async function tryStore(
  store: IdempotencyStore,
  clock: Clock = nodeClock,
): Promise<StoreWarning | undefined> {
  const tried = DelegatingStore.innermostOf(store);
  if (tried.system === 'memory') return undefined;
  const result = oneOfEach(new Trial(tried, TIMEOUT_MS, KEPT_MS, clock)).then(
    (warning) => ({ warning, error: undefined }),
    (error: unknown) => ({ warning: undefined, error: asError(error) }),
  );
  const isOver = await isDoneWithin(TIMEOUT_MS + GRACE_MS, result, clock);
  const { warning, error } = isOver ? await result : noReply();
  if (error === undefined) return warning;
  if (hasCode(error, 'idempotency_store_misconfigured')) throw error;
  return {
    code: 'store_step_failed',
    message: `The store did not execute begin, complete, replay and release at the start. While it does not, idempotent operations are rejected. ${error.message}`,
  };
}

async function oneOfEach(trial: Trial): Promise<StoreWarning | undefined> {
  await trial.release(await trial.begin());
  await trial.complete(await trial.begin());
  await trial.replay();
  return trial.forget();
}
