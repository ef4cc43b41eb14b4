import { setTimeout as sleep } from 'node:timers/promises';
import type { ApiProcess } from '../processes/api-process.js';

const MIN_PAUSE_MS = 200;

export interface PaymentRequest {
  readonly user: 'alice' | 'bob';
  readonly key: string;
  readonly amount: number;
  /** Identifies the payment in the ledger. */
  readonly description: string;
}

export interface PaymentResponse {
  /** `undefined` if the connection broke before a response. */
  readonly status: number | undefined;
  readonly replayed: boolean;
  readonly body: string;
  readonly retryAfterMs: number;
}

/** Sends the request once. */
export function pay(api: ApiProcess, request: PaymentRequest): Promise<PaymentResponse> {
  const { amount, description } = request;
  return post(api, '/payments', request, { amount, currency: 'EUR', description });
}

/** Asks for the invoice of a payment, with a key of its own. */
export function invoice(
  api: ApiProcess,
  { user, key }: PaymentRequest,
  paymentId: string,
): Promise<PaymentResponse> {
  return post(api, `/payments/${paymentId}/invoices`, { user, key: `invoice-${key}` }, {});
}

async function post(
  api: ApiProcess,
  path: string,
  { user, key }: Pick<PaymentRequest, 'user' | 'key'>,
  body: object,
): Promise<PaymentResponse> {
  try {
    const response = await fetch(`${api.url}${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${user}-demo-token`,
        'idempotency-key': key,
        'content-type': 'application/json',
      },
      body: JSON.stringify(body),
    });
    return {
      status: response.status,
      replayed: response.headers.get('idempotent-replayed') === 'true',
      body: await response.text(),
      retryAfterMs: Number(response.headers.get('retry-after')) * 1000,
    };
  } catch {
    return { status: undefined, replayed: false, body: '', retryAfterMs: 0 };
  }
}

/** Retries the request until a final response, as a good client does; returns all responses. */
export async function payWithRetries(
  api: ApiProcess,
  request: PaymentRequest,
): Promise<PaymentResponse[]> {
  const responses: PaymentResponse[] = [];
  for (;;) {
    const response = await pay(api, request);
    responses.push(response);
    if (isFinal(response)) return responses;
    await sleep(Math.max(response.retryAfterMs, MIN_PAUSE_MS));
  }
}

function isFinal({ status }: PaymentResponse): boolean {
  return status !== undefined && status !== 409 && status < 500;
}
