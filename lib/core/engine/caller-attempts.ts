import { executionScope } from '../operation/execution-scope.js';
import { callerOf, type OperationRequest } from '../operation/operation-request.js';
import { Shares } from './shares.js';

/** The attempts of each caller that run in this process: at most `limits.maxAttemptsPerCaller`. */
export class CallerAttempts {
  private readonly shares: Shares;
  /** The callers of those that have a place. */
  private readonly callers = new Map<OperationRequest, string>();

  constructor(maxAttemptsPerCaller: number) {
    this.shares = new Shares(maxAttemptsPerCaller);
  }

  /**
   * Takes a place for an attempt until it has {@link ended}.
   * @param isTakeover - it runs in any case: its operation has had a place, and its record must not be lost to recovery.
   * @returns `false` if its caller has all places.
   */
  admits(request: OperationRequest, isTakeover: boolean): boolean {
    // The reconciler serves no caller, and what an operation calls is part of it: else operations could block each other.
    if (request.transport === undefined || executionScope.getStore() !== undefined) return true;
    const caller = callerOf(request);
    if (caller === undefined) return true;
    if (!isTakeover && this.shares.isFull(caller)) return false;
    this.shares.take(caller);
    this.callers.set(request, caller);
    return true;
  }

  ended(request: OperationRequest): void {
    this.shares.giveBack(this.callers.get(request));
    this.callers.delete(request);
  }
}
