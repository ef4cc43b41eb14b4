import type { IdempotencyEvent } from 'nestjs-idempotency';
import type { RecordKey } from 'nestjs-idempotency/store';

/** How an attempt ended. */
export type AttemptEnd = Extract<IdempotencyEvent, { type: 'ended' }>['how'];

/** What a process of the API reports to the load balancer, beside its log. */
export type Report =
  | { readonly type: 'listening'; readonly url: string }
  | (AttemptReport & { readonly type: 'began'; readonly isTakeover: boolean })
  | (AttemptReport & { readonly type: 'ended'; readonly how: AttemptEnd })
  /** The provider has charged a card; the payment's response is not sent yet. */
  | { readonly type: 'charged' };

interface AttemptReport {
  readonly recordKey: RecordKey;
  readonly attempt: number;
  readonly at: number;
}
