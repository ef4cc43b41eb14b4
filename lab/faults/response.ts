/** What a client got for one request. */
export interface ApiResponse {
  readonly key: string;
  /** URL of the worker that was asked. */
  readonly url: string;
  /** Milliseconds since the epoch. */
  readonly sentAt: number;
  readonly receivedAt: number;
  /** Absent where the connection broke, or the client left. */
  readonly status?: number;
  /** What the connection broke with, such as `ECONNRESET`; `timeout` where none came for very long, `ABORT_ERR` where the client left. */
  readonly error?: string;
  /** The code of a problem document. */
  readonly code?: string;
  readonly replayed: boolean;
  /** `Idempotency-Status`. */
  readonly idempotencyStatus?: string;
  /** `Retry-After`, in seconds. */
  readonly retryAfter?: number;
  /** The execution that a success comes from. */
  readonly execution?: string;
  /** Digest of the body. */
  readonly digest?: string;
}

export function isSuccess({ status }: ApiResponse): boolean {
  return status !== undefined && status >= 200 && status < 300;
}
