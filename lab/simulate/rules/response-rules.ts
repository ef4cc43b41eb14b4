import type { Response, SimulatedRequest } from '../world/request.js';
import { RuleBase, SLACK_MS } from './rule-base.js';

/** When a response may be sent, and what it says. */
export class ResponseRules extends RuleBase {
  sends(request: SimulatedRequest, response: Response): void {
    const { process } = request;
    if (response.status === 201 && response.body === undefined) {
      this.object('a success has no outcome');
    }
    this.checkContent(request, response);
    if (response.code === 'idempotency_key_reused') this.checkMismatch(request);
    const isUnavailable = response.code === 'idempotency_store_unavailable';
    if (isUnavailable && this.isUntroubled(process)) {
      this.object('the store is reported as unavailable without a fault');
    }
    if (!process.isDraining) this.checkAttempt(request, response);
  }

  private checkMismatch({ intent, world }: SimulatedRequest): void {
    const { key, content, operation } = intent;
    if (!world.mismatches.has(`${key} ${operation.fingerprintOf(content)}`)) {
      this.object(`a request for ${key} got a mismatch that no server has found`);
    }
  }

  /** It is of its own key and content; a stored outcome is marked as such, an own one is not. */
  private checkContent(request: SimulatedRequest, { body, replayed }: Response): void {
    if (body === undefined) return;
    const { intent, world } = request;
    const { key, content, operation } = intent;
    if (body.key !== key || body.content !== content) {
      this.object(`a request for ${key} got the outcome of other content`);
    }
    // What a recovery has found is the own outcome of its attempt, too.
    if (operation.plan.onTakeover === 'recover') return;
    const isOwn = world.isOwn(request, body);
    if (isOwn && replayed) this.object(`an execution of ${key} was marked as a replay`);
    if (!isOwn && !replayed) this.object(`a replay of ${key} was not marked`);
  }

  private checkAttempt(request: SimulatedRequest, response: Response): void {
    const { operations } = this.world.rules;
    const fence = operations.fenceOf(request);
    if (fence === undefined) return;
    const { intent, process } = request;
    const { waitMs, saveTimeoutMs, onTakeover } = intent.operation.plan;
    const { body, code, replayed } = response;
    const log = this.logs.of(intent.operation.recordKeyOf(intent.key), fence);
    const now = process.time();
    const returnedAt = operations.returnedAtOf(request) ?? -Infinity;
    if (code === 'idempotency_in_progress' && now - returnedAt < waitMs - SLACK_MS) {
      this.object('an attempt that has lost its record did not wait for the other one');
    }
    // Without a fence, several attempts share the log.
    const isOwn = fence !== 0 && body !== undefined && this.world.isOwn(request, body);
    if (isOwn && onTakeover !== 'recover' && !replayed && log.isOverruled) {
      this.object('an own outcome is the response, though another attempt has the record');
    }
    const { releasedAt, isReleased } = log;
    const isEarly =
      releasedAt !== undefined && !isReleased && now - releasedAt < saveTimeoutMs - SLACK_MS;
    if (code === 'failed' && !replayed && isEarly) {
      this.object('a response was sent before its key was released');
    }
  }
}
