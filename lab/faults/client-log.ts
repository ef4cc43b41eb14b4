import { isSuccess, type ApiResponse } from './response.js';

/** What all clients together saw of one key. */
export interface KeyHistory {
  /** By execution and body: one for a key whose clients all saw the same. */
  readonly successes: Map<string, SeenSuccess>;
  firstSuccessAt: number | undefined;
  /** Requests that were refused because another attempt was in progress. */
  readonly rejections: Pick<ApiResponse, 'sentAt' | 'receivedAt'>[];
  /** Responses 5xx to requests that were sent after a client had got a success. */
  readonly serverErrorsAfterSuccess: ApiResponse[];
}

export interface SeenSuccess {
  readonly execution: string | undefined;
  /** When the first client got it, milliseconds since the epoch. */
  readonly firstAt: number;
  count: number;
}

/** Adds up answers, for a million of them need not be kept. */
export class ClientLog {
  readonly keys = new Map<string, KeyHistory>();
  /** How many answers of each class, see {@link classOf}. */
  readonly classes = new Map<string, number>();
  requests = 0;

  readonly add = (response: ApiResponse): void => {
    this.requests += 1;
    const name = classOf(response);
    this.classes.set(name, (this.classes.get(name) ?? 0) + 1);
    const history = this.#historyOf(response.key);
    if (isSuccess(response)) noteSuccess(history, response);
    const { status = 0, sentAt, receivedAt } = response;
    if (response.code === 'idempotency_in_progress')
      history.rejections.push({ sentAt, receivedAt });
    const { firstSuccessAt, serverErrorsAfterSuccess } = history;
    if (status >= 500 && firstSuccessAt !== undefined && sentAt > firstSuccessAt) {
      serverErrorsAfterSuccess.push(response);
    }
  };

  #historyOf(key: string): KeyHistory {
    const known = this.keys.get(key);
    if (known !== undefined) return known;
    const history = {
      successes: new Map<string, SeenSuccess>(),
      firstSuccessAt: undefined,
      rejections: [],
      serverErrorsAfterSuccess: [],
    };
    this.keys.set(key, history);
    return history;
  }
}

/** As in `201`, `201 replay`, `409 idempotency_in_progress`, `ECONNRESET`. */
export function classOf(response: ApiResponse): string {
  const { status, code, error, replayed, idempotencyStatus, retryAfter } = response;
  if (status === undefined) return error ?? 'no answer';
  const isMute = code !== undefined && RETRYABLE.has(code) && !(retryAfter! >= 1);
  return [
    String(status),
    code,
    replayed ? 'replay' : undefined,
    idempotencyStatus,
    isMute ? 'without Retry-After' : undefined,
  ]
    .filter((word) => word !== undefined)
    .join(' ');
}

/** Problems that have to say when to come back. */
const RETRYABLE = new Set([
  'idempotency_in_progress',
  'idempotency_store_unavailable',
  'idempotency_shutting_down',
  'idempotency_transaction_conflict',
  'idempotency_outcome_unavailable',
]);

function noteSuccess(history: KeyHistory, { execution, digest, receivedAt }: ApiResponse): void {
  history.firstSuccessAt ??= receivedAt;
  const name = `${execution} ${digest}`;
  const seen = history.successes.get(name);
  if (seen === undefined) history.successes.set(name, { execution, firstAt: receivedAt, count: 1 });
  else seen.count += 1;
}
