import { Inject, Injectable } from '@nestjs/common';
import { checkFunction, checkNames, fail } from '../core/option-checks.js';
import type { IdempotencyContext } from '../core/idempotency-context.js';
import { PROTOCOL_DEFAULTS, type ProtocolOptions } from '../core/options.js';
import { keepSuccesses, type OutcomePolicy } from '../core/outcome-policy.js';
import { isScopePart, type ScopePart } from '../core/record-key.js';
import { CallTransport } from '../transports/call/call-transport.js';
import { resolveOptions, type IdempotencyModuleOptions } from './idempotency-options.js';
import { IDEMPOTENCY_MODULE_OPTIONS } from './idempotency.module-definition.js';

/** What {@link IdempotencyService.run} is told about a call; the protocol's options default to the module's. */
export interface IdempotentCall extends ProtocolOptions {
  /** The operation's stable name, distinct from those of all other operations. */
  readonly operation: string;
  /** The idempotency key: one per intended operation, the same on every repetition of it. */
  readonly key: string;
  /** Whose key it is: one part or several, the most general first. */
  readonly scope: ScopePart | readonly ScopePart[];
  /** What the operation is about, as JSON: another payload under the same key is refused. */
  readonly payload?: unknown;
  /**
   * Which outcomes are kept.
   * @defaultValue what the operation returns is kept, what it throws is not
   */
  readonly keep?: OutcomePolicy;
}

const CALL_NAMES = new Set([
  ...Object.keys(PROTOCOL_DEFAULTS),
  'operation',
  'key',
  'scope',
  'payload',
  'keep',
]);

/** Protects code that no interceptor reaches: jobs, scripts, queue consumers. */
@Injectable()
export class IdempotencyService {
  constructor(
    private readonly calls: CallTransport,
    @Inject(IDEMPOTENCY_MODULE_OPTIONS) private readonly defaults: IdempotencyModuleOptions,
  ) {}

  /**
   * Runs `operation` once per key, and gives every repetition what the first run returned. The value is
   * stored as JSON; the first caller, too, gets it as it was stored, so that no repetition differs.
   *
   * @throws {@link OperationRejectedError} when it was not run and there is no outcome: in progress, used
   * for another payload, outcome unknown, store unavailable, shutting down.
   * @throws {@link ValueNotStorableError} when it was run and JSON has no text for its value.
   * @throws {@link FailureReplayedError} when `keep` had kept the failure of the first run.
   * @throws {@link ContentNotComparableError} for a payload that JSON cannot express.
   * @throws {@link IdempotencyOptionsError} for a call that is not well-formed.
   */
  async run<Value>(
    call: IdempotentCall,
    operation: (context: IdempotencyContext) => Promise<Value> | Value,
  ): Promise<Value> {
    checkNames('IdempotencyService.run()', call, CALL_NAMES);
    const { operation: name, key, scope, payload, keep = keepSuccesses, ...own } = call;
    checkText('operation', name);
    checkText('key', key);
    checkFunction('keep', keep);
    const parts: readonly unknown[] = Array.isArray(scope) ? scope : [scope];
    if (parts.length === 0 || !parts.every(isScopePart)) {
      fail(
        'scope',
        'one part or several, each a text that is not empty or a safe integer',
        typeof scope,
      );
    }
    const { protocol: options, http } = resolveOptions(this.defaults, own);
    const { maxStoredBytes } = http;
    const value = await this.calls.run(
      { operation: name, key, scope: parts, payload, keep, maxStoredBytes, options },
      operation,
    );
    return value as Value;
  }
}

/** Not the value itself: a key or a caller does not belong into a message. */
function checkText(option: string, value: unknown): void {
  if (typeof value !== 'string' || value === '')
    fail(option, 'a text that is not empty', typeof value);
}
