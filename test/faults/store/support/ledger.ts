import type { OperationRequest, RejectionReason } from '../../../support/internals/core.js';
import type { IdempotencyEvent } from 'nestjs-idempotency';
import { ClientLog } from '../../../../lab/faults/client-log.js';
import {
  NOTHING_TOLERATED,
  UNAVAILABLE,
  type Expectations,
} from '../../../../lab/faults/expectations.js';
import { judge } from '../../../../lab/faults/oracle.js';
import type { Effect } from '../../../../lab/faults/worker/lines.js';

/** The response that a client received. */
export type ApiResponse =
  | { readonly kind: 'success'; readonly execution: string; readonly replayed: boolean }
  | { readonly kind: 'rejected'; readonly reason: RejectionReason }
  /** The operation failed, and may be retried. */
  | { readonly kind: 'failure' };

const STATUS = { mismatch: 422, in_progress: 409, outcome_unknown: 409 };
const RETRYABLE = new Set<RejectionReason>(['in_progress', 'store_unavailable', 'shutting_down']);
const REJECTIONS = ['422 idempotency_mismatch', '409 idempotency_outcome_unknown', '500'];

/** What happened, as recorded by operations and clients. */
export class Ledger {
  readonly effects: Effect[] = [];
  private readonly clients = new ClientLog();

  effectsOn({ key }: OperationRequest): Effect[] {
    return this.effects.filter((effect) => effect.key === key);
  }

  /** Records a client's response, in terms of HTTP. */
  note({ key }: OperationRequest, sentAt: number, response: ApiResponse): void {
    const common = { key, url: '', sentAt, receivedAt: Date.now(), replayed: false };
    if (response.kind === 'success') {
      const { execution, replayed } = response;
      this.clients.add({ ...common, status: 201, execution, digest: execution, replayed });
    } else if (response.kind === 'rejected') {
      const { reason } = response;
      const status = reason in STATUS ? STATUS[reason as keyof typeof STATUS] : 503;
      // The header belongs to the transport; the contract's tests check it.
      const retryAfter = RETRYABLE.has(reason) ? { retryAfter: 1 } : {};
      this.clients.add({ ...common, status, code: `idempotency_${reason}`, ...retryAfter });
    } else {
      this.clients.add({ ...common, status: 500 });
    }
  }

  /**
   * The broken promises, in words; the library's events count where something had to be reported.
   *
   * @param tolerated - what this run's faults allow besides reported executions after an outlived lease.
   */
  objections(
    events: readonly IdempotencyEvent[],
    tolerated: Partial<Expectations>,
  ): readonly string[] {
    const reported = events.flatMap((event) => {
      const { type } = event;
      const recordKey = 'recordKey' in event ? event.recordKey : undefined;
      if (recordKey === undefined) return [];
      const fence = 'fencingToken' in event ? { fence: event.fencingToken } : {};
      return [{ type, recordKey, worker: '', at: 0, ...fence }];
    });
    const { effects: ledger, clients } = this;
    return judge(
      { ledger, clients, events: reported, stuck: [], deaths: new Map() },
      {
        ...NOTHING_TOLERATED,
        extraExecutions: 'reported to either',
        otherResponses: [...NOTHING_TOLERATED.otherResponses, ...UNAVAILABLE, ...REJECTIONS],
        ...tolerated,
      },
    ).objections;
  }
}
