import {
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreUnavailableError,
} from '../../core/errors.js';
import { jitteredPause } from '../../core/pause.js';
import type { ConnectionWatch } from './connection-watch.js';
import { classifyFailure, describeFailure, type SendFailure } from './error-classification.js';

const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 50;
/** With less time left, one more copy would only turn "not executed" into "unknown". */
const LEAST_TIME_FOR_A_COPY_MS = 20;

/**
 * Sends a command until it is answered, for as long as `timeoutMs` lasts.
 *
 * One send may take all the time that is left: a second copy would wait behind it on the same connection.
 * The next copy goes out when the connection, or the server, has rejected the one before.
 *
 * @throws {@link StoreUnavailableError} no copy was executed.
 * @throws {@link StoreOutcomeUnknownError} a copy may have been executed, or may still be.
 * @throws {@link StoreConfigurationError} the server refuses it.
 */
export async function sendWithinBudget<Reply>(
  watch: ConnectionWatch,
  timeoutMs: number,
  send: (isGivenUp: () => boolean) => Promise<Reply>,
): Promise<Reply> {
  const deadline = performance.now() + timeoutMs;
  let leftMs = timeoutMs;
  let mayHaveRun = false;
  for (let copy = 0; ; copy += 1) {
    const obstacle = watch.obstacle;
    let failure: SendFailure;
    let cause: string;
    if (obstacle === undefined) {
      try {
        return await orNoReply(leftMs, watch, send);
      } catch (error) {
        failure = classifyFailure(error);
        cause = describeFailure(error);
      }
    } else {
      failure = obstacle.reason === 'closed' ? 'refused' : connectionFailure(obstacle.error);
      cause = describeObstacle(obstacle.reason, obstacle.error);
    }

    if (failure === 'misconfigured') throw new StoreConfigurationError(cause);
    mayHaveRun ||= failure === 'unknown' || failure === 'unreplicated';
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** copy, LONGEST_PAUSE_MS);
    leftMs = deadline - performance.now() - pauseMs;
    // Of too few replicas it was waited for already.
    const isFinal = failure === 'refused' || failure === 'unreplicated';
    if (isFinal || leftMs < LEAST_TIME_FOR_A_COPY_MS) {
      // A connection that is closed is final, too, but no answer.
      const isRefusal = isFinal && obstacle === undefined;
      throw mayHaveRun
        ? new StoreOutcomeUnknownError(`Redis may have executed the command: ${cause}`, {
            isRefusal,
          })
        : new StoreUnavailableError(`Redis did not execute the command: ${cause}`, { isRefusal });
    }
    await jitteredPause(pauseMs);
  }
}

class NoReplyError extends Error {
  override readonly name = 'NoReplyError';
}

function orNoReply<Reply>(
  ms: number,
  { silence }: ConnectionWatch,
  send: (isGivenUp: () => boolean) => Promise<Reply>,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    let isGivenUp = false;
    const giveUp = () => {
      isGivenUp = true;
      reject(new NoReplyError('no reply in time'));
    };
    // After a blocked event loop timers come before input: a reply that is already here is read first.
    const timer = setTimeout(() => setImmediate(giveUp), ms);
    const inTime =
      <Value>(settle: (value: Value) => void) =>
      (value: Value) => {
        clearTimeout(timer);
        silence?.settled();
        settle(value);
      };
    silence?.sent();
    send(() => isGivenUp).then(inTime(resolve), inTime(reject));
  });
}

/** What was never sent was not executed; but a password that is wrong will not be right in a moment. */
function connectionFailure(error: Error | undefined): SendFailure {
  return classifyFailure(error) === 'misconfigured' ? 'misconfigured' : 'not_executed';
}

function describeObstacle(reason: 'not_connected' | 'closed', error: Error | undefined): string {
  const state = reason === 'closed' ? 'the connection is closed' : 'there is no connection';
  return error === undefined ? state : `${state} (${describeFailure(error)})`;
}
