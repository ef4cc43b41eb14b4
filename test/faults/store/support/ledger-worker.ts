import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { EngineOptions, IdempotencyStore, Outcome } from 'nestjs-idempotency';
import {
  unfinishedRetentionMs,
  type Attempt,
  type OperationRequest,
  type Settlement,
} from '../../../support/internals/core/operation.js';
import { success, Worker } from '../../../integration/engine/support/worker.js';
import type { Answer, Ledger } from './ledger.js';

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
    options: EngineOptions = {},
  ) {
    super(store, options);
  }

  /** The outcome of a client's request: by default the operation has its effect. */
  async request(claim: OperationRequest, prepare = nothing): Promise<Answer> {
    const sentAt = Date.now();
    const answer = await this.handle(claim, prepare);
    this.ledger.note(claim, sentAt, answer);
    return answer;
  }

  /** A client that retries as long as the response asks for it. */
  async insist(claim: OperationRequest, prepare = nothing): Promise<Answer> {
    // Not by the clock that a test may drive.
    const giveUpAt = Date.now() + INSIST_MS;
    for (;;) {
      const answer = await this.request(claim, prepare);
      const comeBack = answer.kind === 'rejected' && RETRYABLE.includes(answer.reason);
      if (!comeBack) return answer;
      if (Date.now() > giveUpAt) throw new Error(`still ${answer.reason}`);
      await delay(INSIST_PAUSE_MS);
    }
  }

  /** The operation's effect, as recorded in the ledger. */
  effect(claim: OperationRequest, attempt: Attempt): string {
    const execution = randomUUID();
    const { number, isTakeover, fencingToken: fence } = attempt;
    const at = Date.now();
    const { key } = claim;
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

  private async handle(claim: OperationRequest, prepare: Preparation): Promise<Answer> {
    const decision = await this.begin(claim);
    if (decision.kind === 'reject') return { kind: 'rejected', reason: decision.reason };
    if (decision.kind === 'replay') return replayOf(decision.outcome);
    const { attempt } = decision;
    try {
      await prepare(attempt);
    } catch {
      await attempt.release();
      return { kind: 'failure' };
    }
    const execution = this.effect(claim, attempt);
    const retentionMs = unfinishedRetentionMs(claim.options);
    const settlement = await attempt.complete({ ...success(execution), retentionMs });
    return answerTo(settlement, execution);
  }
}

function answerTo(settlement: Settlement, execution: string): Answer {
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
    case 'conflict':
      return { kind: 'rejected', reason: 'store_unavailable' };
  }
}

function replayOf({ body }: Outcome): Answer {
  return { kind: 'success', execution: Buffer.from(body).toString(), replayed: true };
}
