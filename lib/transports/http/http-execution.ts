import type { OutgoingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import { HttpException } from '@nestjs/common';
import { OperationRun, replyOf } from '../../core/engine/run-operation.js';
import type { ResponseSender } from '../../core/engine/settlement.js';
import type { Attempt, BodySpool, Settlement } from '../../core/operation/attempt.js';
import type { ExecutionScope } from '../../core/operation/execution-scope.js';
import { asksToKeep, type OutcomeSummary } from '../../core/operation/outcome-policy.js';
import type { Outcome } from '../../core/record/record.js';
import type { RejectionCode } from '../../core/errors/rejections.js';
import { replayOf } from './http-replay.js';
import type { HttpRoute } from './http-route.js';
import { IdempotencyProblem } from './problem.js';
import { addedHeaders } from './replay-headers.js';
import {
  encodeResponse,
  NOTHING,
  RESPONSE_NOT_KEPT,
  type Head,
  type RecordedResponse,
} from './response/http-response.js';
import { holdDestroy } from './response/held-close.js';
import type {
  ResponseSink,
  Replacement,
  Settling,
  SpooledResponse,
  StoredBody,
} from './response/response-sink.js';

/** A handler that failed when its client got the response of a success. */
const SUCCESS: OutcomeSummary = { status: 200 };

/** What the first caller gets when its body cannot be read back: what its repetitions get. */
const NOT_READ_BACK = {
  not_kept: 'idempotency_response_not_kept',
  outcome_unreadable: 'idempotency_outcome_unreadable',
  outcome_unavailable: 'idempotency_outcome_unavailable',
} as const;

/** One attempt on HTTP, from the handler's start to the last byte. */
export class HttpExecution extends OperationRun<RecordedResponse> implements ResponseSink {
  readonly successSummary = SUCCESS;
  readonly isNative: boolean;
  /** What a native or transactional handler sends may leave by no other way. */
  readonly isBypassable: boolean;
  readonly marker: string;

  /** In a transaction: discards the recorded response, and what the handler has set for it. */
  onDiscard: (() => void) | undefined;
  /** What the handler had sent was dropped, and no other response has begun. */
  isResponseMissing = false;
  /** What the handler has returned to be sent, if it is a stream. */
  source: Readable | undefined;
  private uploading: BodySpool | undefined;

  constructor(
    attempt: Attempt,
    private readonly route: HttpRoute,
    scope: ExecutionScope,
    readonly headersBefore: OutgoingHttpHeaders,
    readonly statusBefore: number,
  ) {
    super(attempt, scope, route.options);
    this.isNative = route.isNative;
    this.isBypassable = !route.isNative && !this.isTransactional;
    this.marker = route.options.http.replayHeader;
  }

  get isOfHandler(): boolean {
    return this.isNative || this.isSender;
  }

  /** Nothing may leave before the commit, so that all is buffered. */
  get maxBufferedBytes(): number {
    return this.isAwaitingHandler ? Infinity : this.route.options.outcome.maxBytes;
  }

  get holdsLast(): boolean {
    const { offload } = this.route.options.outcome;
    return offload !== false && offload.delivery === 'hold-last';
  }

  override keeps(summary: OutcomeSummary): boolean {
    return asksToKeep(this.route.options.outcome.keep, summary, this);
  }

  onStart(status: number): 'hold' | 'pass' | 'ignore' {
    this.isResponseMissing = false;
    return this.responseStarted(status);
  }

  onSourceError(): void {
    this.report({ kind: 'sourceBroken' });
    this.uploading?.fail(new Error('The source of the response failed.'));
  }

  spool(status: number, beginning: readonly Uint8Array[]): BodySpool | undefined {
    if (!this.route.options.outcome.storeBody) return undefined;
    const spool = this.startSpool(Buffer.concat(beginning), status);
    this.uploading = spool;
    if (spool !== undefined && this.source !== undefined) {
      void spool.settled.then(holdDestroy(this.source));
    }
    return spool;
  }

  async onSpooled({ status, headers }: Head): Promise<SpooledResponse> {
    const spool = this.uploading;
    this.spooled = spool;
    const settlement = await this.onComplete({ status, headers, body: NOTHING });
    const replacement = this.replacementAfter(settlement);
    if (replacement !== undefined) {
      if (settlement?.kind === 'other') spool?.discard();
      return { kind: 'other', response: replacement };
    }
    const isReleased = settlement === undefined;
    const large = (await spool?.open()) ?? 'not_kept';
    if (typeof large === 'string') {
      // A retry runs the operation again: nothing is known of it then.
      const code = isReleased ? 'idempotency_store_unavailable' : NOT_READ_BACK[large];
      return { kind: 'other', response: this.problem(code).toResponse() };
    }
    if (isReleased) large.stream.once('close', () => spool?.discard());
    return { kind: 'own', large };
  }

  async onSent({ status, headers }: Head): Promise<StoredBody | undefined> {
    const spool = this.uploading;
    this.spooled = spool;
    const settlement = await this.onComplete({ status, headers, body: NOTHING });
    if (settlement?.kind === 'own' && settlement.isLost !== true && spool?.isKept) return spool;
    if (settlement?.kind === 'other') settlement.outcome.large?.stream.destroy();
    if (settlement === undefined || settlement.kind === 'other') spool?.discard();
    return undefined;
  }

  onComplete(response: RecordedResponse): Settling {
    return this.respond({ kind: 'responseComplete', status: response.status }, response);
  }

  onOverflow(status: number): Settling {
    return this.respond({ kind: 'overflow', status });
  }

  /** A response was sent past the recorder: other code has given it another prototype. */
  onBypass(status: number): void {
    this.onStart(status);
    void this.onOverflow(status);
  }

  problem(code: RejectionCode): IdempotencyProblem {
    return IdempotencyProblem.of(code, this.route.problems);
  }

  protected override discardResponse(): void {
    super.discardResponse();
    this.isResponseMissing = true;
    this.onDiscard?.();
  }

  /** Without an outer interceptor, a success is a transactional handler's, also if its callback lost the context. */
  protected override senderOf(status: number): ResponseSender {
    const sender = super.senderOf(status);
    // After the stream's end, Nest responds with its value.
    const mayBeHandler = sender === undefined && this.isTransactional && this.isStreaming;
    return mayBeHandler && status < 400 && this.route.isOutermost() ? 'handler' : sender;
  }

  protected override isResponse(error: unknown): boolean {
    return error instanceof HttpException;
  }

  protected override outcomeOf(response: RecordedResponse | undefined): Outcome {
    const { storeBody } = this.route.options.outcome;
    if (response === undefined || !storeBody || !this.attempt.keepsBody(response.body.length)) {
      return RESPONSE_NOT_KEPT;
    }
    const { status, headers, body } = response;
    const { routeHeaders, replayHeaders, neverReplayHeaders: never } = this.route;
    const { headersBefore: before } = this;
    try {
      const added = addedHeaders(before, headers, routeHeaders, replayHeaders, never);
      return encodeResponse({ status, headers: added, body });
    } catch (error) {
      // The response cannot be serialized. The effect has happened, and must not happen again.
      this.optionFailed('response', error);
      this.spooled = undefined;
      return RESPONSE_NOT_KEPT;
    }
  }

  replacementAfter(settlement: Settlement | undefined): Replacement {
    const reply = replyOf(settlement);
    if (reply === undefined) return undefined;
    const replay = replayOf(reply, this.route);
    return typeof replay === 'string' ? this.problem(replay).toResponse() : replay;
  }
}
