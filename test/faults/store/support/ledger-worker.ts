import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { IdempotencyStore } from 'nestjs-idempotency';
import type { Outcome } from 'nestjs-idempotency/store';
import {
  type LimitsOptions,
  unfinishedRetentionMs,
  type Attempt,
  type OperationRequest,
  type Settlement,
} from '../../../support/internals/core.js';
import { success, Worker } from '../../../support/engine/worker.js';
import type { ApiResponse, Ledger } from './ledger.js';

/** The operation up to its effect; it fails by throwing. */
export type Preparation = (attempt: Attempt) => unknown;

const RETRYABLE = ['in_progress', 'store_unavailable'];
const INSIST_MS = 20_000;
const INSIST_PAUSE_MS = 20;

const nothing: Preparation = () => undefined;

/** A process of an application, whose operations record their effects in a ledger. */
export class LedgerWorker extends Worker {
  constructor(
    store: IdempotencyStore,
    private readonly ledger: Ledger,
    limits: LimitsOptions = {},
  ) {
    super(store, limits);
  }

  /** The outcome of a client's request: by default the operation has its effect. */
  async request(request: OperationRequest, prepare = nothing): Promise<ApiResponse> {
    const sentAt = Date.now();
    const response = await this.handle(request, prepare);
    this.ledger.note(request, sentAt, response);
    return response;
  }

  /** A client that retries as long as the response asks for it. */
  async insist(request: OperationRequest, prepare = nothing): Promise<ApiResponse> {
    // Not by the clock that a test may drive.
    const giveUpAt = Date.now() + INSIST_MS;
    for (;;) {
      const response = await this.request(request, prepare);
      const comeBack = response.kind === 'rejected' && RETRYABLE.includes(response.reason);
      if (!comeBack) return response;
      if (Date.now() > giveUpAt) throw new Error(`still ${response.reason}`);
      await delay(INSIST_PAUSE_MS);
    }
  }

  /** The operation's effect, as recorded in the ledger. */
  effect(request: OperationRequest, attempt: Attempt): string {
    const execution = randomUUID();
    const { number, isTakeover, fencingToken: fence } = attempt;
    const at = Date.now();
    const { key } = request;
    this.ledger.effects.push({
      key,
      attempt: number,
      fence,
      isTakeover,
      at,
      worker: '',
      execution,
    });
    return execution;
  }

  private async handle(request: OperationRequest, prepare: Preparation): Promise<ApiResponse> {
    const decision = await this.begin(request);
    if (decision.kind === 'reject') return { kind: 'rejected', reason: decision.reason };
    if (decision.kind === 'replay') return replayOf(decision.outcome);
    const { attempt } = decision;
    if (!attempt.isProtected) attempt.startedUnprotected();
    try {
      await prepare(attempt);
    } catch {
      await attempt.release();
      return { kind: 'failure' };
    }
    const execution = this.effect(request, attempt);
    const retentionMs = unfinishedRetentionMs(request.options);
    const settlement = await attempt.complete({ ...success(execution), retentionMs });
    return replyTo(settlement, execution);
  }
}

function replyTo(settlement: Settlement, execution: string): ApiResponse {
  switch (settlement.kind) {
    case 'own':
      return { kind: 'success', execution, replayed: false };
    case 'other':
      return replayOf(settlement.outcome);
    case 'unknown':
      return { kind: 'rejected', reason: 'outcome_unknown' };
    case 'in_progress':
      return { kind: 'rejected', reason: 'in_progress' };
    case 'unsaved':
    case 'outcome_unreadable':
    case 'outcome_unavailable':
    case 'conflict':
      return { kind: 'rejected', reason: 'store_unavailable' };
  }
}

function replayOf({ body }: Outcome): ApiResponse {
  return { kind: 'success', execution: Buffer.from(body).toString(), replayed: true };
}
