import { Inject, Injectable } from '@nestjs/common';
import type { IdempotencyContext } from '../core/operation/idempotency-context.js';
import type { ProtocolOptions } from '../core/operation/options.js';
import { keepSuccesses, type OutcomePolicy } from '../core/operation/outcome-policy.js';
import { fingerprint } from '../core/record/fingerprint.js';
import { isScopePart, type ScopePart } from '../core/record/record-key.js';
import { forget } from '../core/util/maybe-async.js';
import { checkFunction, checkNames, throwOptionError, within } from '../core/util/option-checks.js';
import type { Call } from '../transports/call/call.js';
import { CallTransport } from '../transports/call/call-transport.js';
import { valueFormat } from '../transports/call/outcome-format.js';
import type { ValueOptions } from '../transports/call/value-route.js';
import { givenContent } from '../transports/common/bytes-or-json.js';
import { METHOD_OPTION_NAMES } from './options/call-options.js';
import {
  OPERATION_REMEDIES,
  resolveOptions,
  type IdempotencyModuleOptions,
} from './options/idempotency-options.js';
import { OPTIONS_IN_USE } from './options/idempotency.module-definition.js';

/** What {@link IdempotencyService.run} is told about a call; the protocol's options default to the module's. */
export interface IdempotentCall extends ProtocolOptions, ValueOptions {
  /** The operation's stable name, distinct from those of all other operations. */
  readonly operation: string;
  /** The idempotency key: one per intended operation, the same on every repetition of it. */
  readonly key: string;
  /** Whose key it is: one part or several, the most general first. */
  readonly scope: ScopePart | readonly ScopePart[];
  /**
   * What the operation is about, as JSON: another payload under the same key is refused. A promise, a `Map` or an instance
   * of a class without members of its own is an {@link IdempotencyOptionsError}: it would compare nothing.
   * @defaultValue nothing is compared, as with `undefined`
   */
  readonly payload?: unknown;
  /**
   * Which outcomes are kept.
   * @defaultValue what the operation returns is kept, what it throws is not
   */
  readonly keep?: OutcomePolicy;
}

/** The end of a call that has a value. */
export interface CallOutcome<Value> {
  readonly value: Value;
  /** Whether the value comes from the record of an earlier run: the operation did not run this time. */
  readonly replayed: boolean;
}

const NAMES = new Set(METHOD_OPTION_NAMES);

/** Protects code that no interceptor reaches: jobs, scripts, queue consumers. */
@Injectable()
export class IdempotencyService {
  constructor(
    private readonly calls: CallTransport,
    @Inject(OPTIONS_IN_USE) private readonly defaults: IdempotencyModuleOptions,
  ) {}

  /**
   * Runs `operation` once per key, and gives every repetition what the first run returned. The value is
   * stored by the option `codec`, JSON by default; the first caller, too, gets it as it was stored, so that no
   * repetition differs.
   *
   * @throws {@link OperationRejectedError} when it was not run and there is no outcome: in progress, used
   * for another payload, outcome unknown, store unavailable, shutting down.
   * @throws {@link ValueNotStorableError} when it was run and the codec has no form for its value.
   * @throws {@link FailureReplayedError} when `keep` had kept the failure of the first run.
   * @throws {@link ContentNotComparableError} for a payload that JSON cannot express.
   * @throws {@link IdempotencyOptionsError} for a call that is not well-formed.
   */
  async run<Value>(
    call: IdempotentCall,
    operation: (context: IdempotencyContext) => Promise<Value> | Value,
  ): Promise<Value> {
    const { value } = await this.runDetailed(call, operation);
    return value;
  }

  /**
   * As {@link run}, and tells whether the value is a repetition's.
   *
   * @throws as {@link run}.
   */
  async runDetailed<Value>(
    call: IdempotentCall,
    operation: (context: IdempotencyContext) => Promise<Value> | Value,
  ): Promise<CallOutcome<Value>> {
    checkNames('IdempotencyService.run()', call, NAMES, OPERATION_REMEDIES);
    const name: unknown = call.operation;
    const of = typeof name === 'string' ? ` of "${name}"` : '';
    const place = `IdempotencyService.run()${of}`;
    const resolved = within(place, place, () => this.resolved(call));
    const result = await this.calls.settle(resolved, operation);
    if (result.kind !== 'value') throw result.error;
    return { value: result.value as Value, replayed: result.isReplayed };
  }

  private resolved(call: IdempotentCall): Call {
    const { operation, key, scope, payload, keep = keepSuccesses, ...own } = call;
    // A promise is refused in either place: nobody will wait for it.
    const parts: readonly unknown[] = Array.isArray(scope) ? scope : [scope];
    for (const given of [key, ...parts]) forget(given);
    checkText('operation', operation);
    checkText('key', key);
    checkFunction('keep', keep);
    if (parts.length === 0 || !parts.every(isScopePart)) {
      throwOptionError(
        'scope',
        'one part or several, each a text that is not empty or a safe integer',
        typeof scope,
      );
    }
    const content = payload === undefined ? '' : givenContent(payload, 'payload', operation);
    const { protocol, http, codec } = resolveOptions(this.defaults, own);
    return {
      operation,
      keyOperation: operation,
      key,
      scope: parts,
      fingerprint: fingerprint([operation, content]),
      keep,
      format: valueFormat(codec),
      maxStoredBytes: http.maxStoredBytes,
      options: protocol,
    };
  }
}

/** Not the value itself: a key or a caller does not belong into a message. */
function checkText(option: string, value: unknown): void {
  if (typeof value !== 'string' || value === '')
    throwOptionError(option, 'a text that is not empty', typeof value);
}
