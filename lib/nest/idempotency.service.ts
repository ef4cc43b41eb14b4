import { Inject, Injectable } from '@nestjs/common';
import type { IdempotencyContext } from '../core/operation/idempotency-context.js';
import type { ProtocolOptions } from '../core/operation/options.js';
import { fingerprint } from '../core/record/fingerprint.js';
import { givenScope, readScope, type ScopePart } from '../core/record/scope.js';
import { forget } from '../core/util/maybe-async.js';
import {
  checkObject,
  completeCopy,
  isSettings,
  throwOptionError,
  within,
} from '../core/options/option-checks.js';
import type { Call } from '../transports/call/call.js';
import { CallTransport } from '../transports/call/call-transport.js';
import { valueFormat } from '../transports/call/outcome-format.js';
import { givenContent } from '../transports/common/chosen-content.js';
import { CALL_NAMES, IDENTITY_NAMES } from './options/call-options.js';
import {
  callLevel,
  resolveOptions,
  type IdempotencyModuleOptions,
  type ResolvedOptions,
} from './options/idempotency-options.js';
import { OPTIONS_IN_USE } from './options/idempotency.module-definition.js';

/**
 * Describes a call for {@link IdempotencyService.run}; its groups merge with the module's. They are
 * resolved once per operation, and again when one of their fields differs: define functions outside of the call.
 */
export interface IdempotentCall extends ProtocolOptions {
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
}

/** The value of a call, and whether it was replayed. */
export interface CallOutcome<Value> {
  readonly value: Value;
  /** Whether the value comes from the record of an earlier execution. */
  readonly replayed: boolean;
}

/** How many operations' options are kept: names may be made up at run time. */
const MAX_KEPT_OPTIONS = 1_000;

type Groups = Readonly<Record<string, unknown>>;

interface KeptOptions {
  /** A copy of the groups that were given. */
  readonly given: Groups;
  readonly resolved: ResolvedOptions;
}

/** Protects code that no interceptor reaches: jobs, scripts, queue consumers. */
@Injectable()
export class IdempotencyService {
  private readonly kept = new Map<string, KeptOptions>();

  /** @internal */
  constructor(
    private readonly calls: CallTransport,
    @Inject(OPTIONS_IN_USE) private readonly defaults: IdempotencyModuleOptions,
  ) {}

  /**
   * Runs `operation` once per key and returns its stored value to every retry. The `outcome.codec` stores the value, by
   * default as JSON; the first caller, too, gets the stored form, so that all get the same.
   * @throws {@link OperationRejectedError} if it did not run and has no outcome: in progress, used for another payload,
   *   outcome unknown, store unavailable, shutting down.
   * @throws {@link ValueNotStorableError} if it ran and the codec cannot encode its value.
   * @throws {@link FailureReplayedError} if `outcome.keep` kept the failure of the first execution.
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
    checkObject('IdempotencyService.run()', call);
    const name: unknown = call.operation;
    const of = typeof name === 'string' ? ` of "${name}"` : '';
    const place = `IdempotencyService.run()${of}`;
    const resolved = within(place, place, () => this.resolved(call));
    const result = await this.calls.settle(resolved, operation);
    if (result.kind !== 'value') throw result.error;
    return { value: result.value as Value, replayed: result.isReplayed };
  }

  private resolved(call: IdempotentCall): Call {
    const { operation, key, scope, payload, ...groups } = isPlain(call)
      ? call
      : completeCopy(call, CALL_NAMES);
    // A promise is rejected in either place; nothing awaits it.
    forget(key);
    const read = readScope(scope);
    const options = this.optionsOf(operation, groups);
    checkText('operation', operation);
    checkText('key', key);
    const parts = givenScope(read);
    const content = payload === undefined ? '' : this.contentOf(payload, operation);
    const { keep, codec } = options.outcome;
    return {
      operation,
      transport: 'call',
      keyOperation: operation,
      key,
      scope: parts,
      fingerprint: fingerprint([operation, content]),
      keep,
      format: valueFormat(codec),
      options,
    };
  }

  private contentOf(payload: unknown, operation: string): string | Uint8Array {
    try {
      return givenContent(payload, 'payload', operation);
    } catch (error) {
      this.calls.reportInvalid(operation, 'call', error);
      throw error;
    }
  }

  private optionsOf(operation: string, given: Groups): ResolvedOptions {
    const kept = this.kept.get(operation);
    if (kept !== undefined && hasSameFields(kept.given, given)) return kept.resolved;
    const level = callLevel('IdempotencyService.run()', given, IDENTITY_NAMES);
    const resolved = resolveOptions('call', this.defaults, level);
    if (this.kept.size >= MAX_KEPT_OPTIONS) this.kept.clear();
    const copies = Object.entries(given).map(([name, group]) => [
      name,
      isSettings(group) ? { ...group } : group,
    ]);
    this.kept.set(operation, { given: Object.fromEntries(copies) as Groups, resolved });
    return resolved;
  }
}

/** Compares groups by their fields, and fields by identity. */
function hasSameFields(left: Groups, right: Groups): boolean {
  return haveSame(left, right, (one, other) =>
    isSettings(one) && isSettings(other)
      ? isPlain(other) && haveSame(one, other, Object.is)
      : Object.is(one, other),
  );
}

/** Whether an object inherits nothing, as an instance of a class may do, whose getters a comparison would not see. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function haveSame(
  left: Groups,
  right: Groups,
  isSame: (one: unknown, other: unknown) => boolean,
): boolean {
  const names = Object.keys(left);
  return (
    names.length === Object.keys(right).length &&
    names.every((name) => name in right && isSame(left[name], right[name]))
  );
}

/** Checks without showing the value: a key or a caller does not belong in a message. */
function checkText(option: string, value: unknown): void {
  if (typeof value !== 'string' || value === '')
    throwOptionError(option, 'a non-empty string', typeof value);
}
