import { abortable } from './abortable.js';
import type { IdempotencyProblem } from './errors.js';
import { problemIn } from './problem-document.js';
import { readToEnd } from './response-body.js';
import { startTimer } from './timer.js';

/** What became of one request. */
export type TryOutcome =
  | {
      readonly kind: 'answered';
      readonly response: Response;
      readonly problem: IdempotencyProblem | undefined;
    }
  | { readonly kind: 'unanswered'; readonly error: unknown };

/**
 * Sends one request and reads its answer to the end: an answer that breaks off half-way is a lost answer, and
 * a lost answer can be had again.
 *
 * @param signal - ends the try from outside.
 */
export async function tryOnce(
  send: (signal: AbortSignal) => Promise<Response>,
  signal: AbortSignal,
  timeoutMs: number,
): Promise<TryOutcome> {
  const controller = new AbortController();
  const abort = () => controller.abort(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  const timer = startTimer(timeoutMs, () =>
    controller.abort(new DOMException(`No answer within ${timeoutMs} ms.`, 'TimeoutError')),
  );
  try {
    return await abortable(answer(send(controller.signal)), controller.signal);
  } catch (error) {
    return { kind: 'unanswered', error };
  } finally {
    timer.stop();
    signal.removeEventListener('abort', abort);
  }
}

async function answer(sent: Promise<Response>): Promise<TryOutcome> {
  const response = await sent;
  await readToEnd(response);
  return { kind: 'answered', response, problem: await problemIn(response) };
}
