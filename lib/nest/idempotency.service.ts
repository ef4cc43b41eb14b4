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

/** Describes a call for {@link IdempotencyService.run}; the protocol's options default to the module's. */
export interface IdempotentCall extends ProtocolOptions, ValueOptions {
  /** The operation's stable name, unique among all operations. */
  readonly operation: string;
  /** The idempotency key: one per intended operation, the same on every retry. */
  readonly key: string;
  /** The caller who owns the key: one part or several, the most general first. */
  readonly scope: ScopePart | readonly ScopePart[];
  /**
   * The operation's content, as JSON: another payload under the same key is rejected. A promise, a `Map` or an instance
   * of a class without own members throws {@link IdempotencyOptionsError}, since it would compare nothing.
   * @defaultValue nothing is compared, as with `undefined`
   */
  readonly payload?: unknown;
  /** Which outcomes are kept. @defaultValue values are kept, errors are not */
  readonly keep?: OutcomePolicy;
}

/** The value of a call, and whether it was replayed. */
export interface CallOutcome<Value> {
  readonly value: Value;
  /** Whether the value comes from the record of an earlier execution. */
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
   * Runs `operation` once per key and returns its stored value to every retry. The option `codec` stores the value, by
   * default as JSON; the first caller, too, gets the stored form, so that all get the same.
   * @throws {@link OperationRejectedError} if it did not run and has no outcome: in progress, used for another payload,
   *   outcome unknown, store unavailable, shutting down.
   * @throws {@link ValueNotStorableError} if it ran and the codec cannot encode its value.
   * @throws {@link FailureReplayedError} if `keep` kept the failure of the first execution.
   * @throws {@link ContentNotComparableError} for a payload that JSON cannot express.
   * @throws {@link IdempotencyOptionsError} for invalid arguments.
   */
  async run<Value>(
    call: IdempotentCall,
    operation: (context: IdempotencyContext) => Promise<Value> | Value,
  ): Promise<Value> {
    const { value } = await this.runDetailed(call, operation);
    return value;
  }

  /** As {@link run}; also returns whether the value was replayed. @throws as {@link run}. */
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
    // A promise is rejected in either place; nothing awaits it.
    const parts: readonly unknown[] = Array.isArray(scope) ? scope : [scope];
    for (const given of [key, ...parts]) forget(given);
    checkText('operation', operation);
    checkText('key', key);
    checkFunction('keep', keep);
    if (parts.length === 0 || !parts.every(isScopePart)) {
      throwOptionError(
        'scope',
        'one part or several, each a non-empty string or a safe integer',
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

/** Checks without showing the value: a key or a caller does not belong in a message. */
function checkText(option: string, value: unknown): void {
  if (typeof value !== 'string' || value === '')
    throwOptionError(option, 'a non-empty string', typeof value);
}
