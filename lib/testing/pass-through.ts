import { randomUUID } from 'node:crypto';
import { Logger, type CallHandler, type ExecutionContext, type Type } from '@nestjs/common';
import { defer, from, lastValueFrom, mergeMap, Observable, toArray } from 'rxjs';
import type { IdempotencyContext } from '../core/operation/idempotency-context.js';
import {
  PROTOCOL,
  PROTOCOL_DEFAULTS,
  type ProtocolOptions,
  type ResolvedProtocolOptions,
} from '../core/operation/options.js';
import { IdempotencyEvents } from '../core/record/idempotency-events.js';
import { recordKey } from '../core/record/record-key.js';
import { givenScope, readScope } from '../core/record/scope.js';
import { errorTypeOf, IdempotencyOptionsError } from '../core/errors/errors.js';
import { resolve } from '../core/options/option-schema.js';
import { idempotentMethods, nameOf } from '../nest/discovery/handler-facts.js';
import { idempotentOptions, type Handler } from '../nest/discovery/idempotent.metadata.js';
import { METHOD_RUNNER } from '../nest/discovery/instances.js';
import type {
  CallOutcome,
  IdempotencyService,
  IdempotentCall,
} from '../nest/idempotency.service.js';
import type { IdempotentMethods } from '../nest/idempotent-methods.js';
import { LogReporter } from '../nest/log-reporter.js';
import type { IdempotencyModuleOptions } from '../nest/options/idempotency-options.js';
import type { HandlerTransport, HandlerTransports } from '../nest/registry/handler-transports.js';
import { isUnprotectedMethod } from '../transports/common/ask-option.js';
import { testContext, type IdempotencyTestContext } from './idempotency-test-context.js';

type TransactionSettings = Pick<ProtocolOptions, 'transaction'>;

/** What counts of the module's options. */
type PassThroughSettings = TransactionSettings &
  Pick<IdempotencyModuleOptions, 'service' | 'unitOfWork'>;

type Identity = Pick<IdempotencyContext, 'operation' | 'scope' | 'key'>;

/** Runs every operation unprotected, as if its key were new. */
export class PassThrough
  implements Pick<HandlerTransports, 'known' | 'add'>, Pick<IdempotentMethods, 'run'>
{
  /** Replaces that of {@link HandlerTransports}. */
  readonly known: HandlerTransports['known'] = new WeakMap();

  constructor(
    private readonly settings: PassThroughSettings = {},
    private readonly events = new IdempotencyEvents(),
  ) {
    events.reportTo(new LogReporter(new Logger('Idempotency')));
  }

  /** Replaces that of {@link HandlerTransports}. */
  add(): HandlerTransport {
    return { transport: this, route: undefined };
  }

  /** Replaces that of {@link IdempotentMethods}. */
  run(
    type: Type,
    entry: Handler,
    _args: readonly unknown[],
    operation: () => unknown,
  ): Promise<unknown> {
    return this.settle(identityOf(type, entry), this.transactionOfHandler(type, entry), operation);
  }

  service(): Pick<IdempotencyService, 'run' | 'runDetailed'> {
    const runDetailed = async <Value>(
      call: IdempotentCall,
      operation: (context: IdempotencyContext) => Promise<Value> | Value,
    ): Promise<CallOutcome<Value>> => {
      const { operation: name, key, scope } = call;
      const identity = { operation: name, key, scope: givenScope(readScope(scope)) };
      const value = await this.settle(identity, this.transactionOf(call), operation);
      return { value, replayed: false };
    };
    return {
      runDetailed,
      run: async (call, operation) => (await runDetailed(call, operation)).value,
    };
  }

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    if (isSafeRequest(context)) return next.handle();
    const identity = identityOf(context.getClass(), context.getHandler());
    const transaction = this.transactionOfHandler(context.getClass(), context.getHandler());
    if (transaction !== false) {
      const emissions = () => lastValueFrom(next.handle().pipe(toArray()));
      return defer(() => this.settle(identity, transaction, emissions)).pipe(
        mergeMap((values) => from(values)),
      );
    }
    return new Observable((subscriber) =>
      this.contextOf(identity).run(() => next.handle().subscribe(subscriber)),
    );
  }

  private async settle<Value>(
    identity: Identity,
    settings: ResolvedProtocolOptions['transaction'],
    operation: (context: IdempotencyContext) => Promise<Value> | Value,
  ): Promise<Value> {
    const run = async (transaction?: { readonly handle: unknown }) => {
      const context = this.contextOf(identity, transaction);
      return { context, value: await context.run(() => operation(context)) };
    };
    if (settings === false) return (await run()).value;
    const { unitOfWork } = this.settings;
    const { isolation } = settings;
    const { context, value } = await (unitOfWork === undefined
      ? run({ handle: undefined })
      : unitOfWork.run(
          {
            isolation: isolation === 'default' ? undefined : isolation,
            timeoutMs: PROTOCOL_DEFAULTS.lease.maxExecution,
          },
          run,
        ));
    await this.callHooks(context);
    return value;
  }

  private contextOf(
    identity: Identity,
    transaction?: { readonly handle: unknown },
  ): IdempotencyTestContext {
    const { service } = this.settings;
    const given = service === undefined ? identity : { ...identity, service };
    return testContext({ ...given, isProtected: false }, transaction);
  }

  /** A hook that fails is reported; the operation has succeeded. */
  private async callHooks(context: IdempotencyTestContext): Promise<void> {
    const { operation, attempt, fencingToken } = context;
    while (context.commitHooks.length > 0) {
      try {
        await context.commit();
      } catch (error) {
        const { service } = this.settings;
        const name = recordKey({ ...context, service });
        const subject = { operation, recordKey: name, attempt, fencingToken };
        const errorType = errorTypeOf(error);
        this.events.emit({ type: 'commit_hook_failed', ...subject, error, errorType });
      }
    }
  }

  private transactionOfHandler(
    type: Type,
    handler: Handler,
  ): ResolvedProtocolOptions['transaction'] {
    return this.transactionOf(idempotentOptions(type), idempotentOptions(handler));
  }

  private transactionOf(
    ...levels: readonly (TransactionSettings | undefined)[]
  ): ResolvedProtocolOptions['transaction'] {
    const given = [this.settings, ...levels].map((options) => ({
      what: '@Idempotent()',
      place: 'method' as const,
      given: { transaction: options?.transaction },
    }));
    return resolve(PROTOCOL, given).transaction;
  }
}

/**
 * Makes the idempotent methods of an instance that Nest has not created run unprotected, for unit tests without a
 * module. Request handlers do not need it: called directly, they are plain methods.
 * @example `const invoices = unprotected(new InvoiceService(mailer));`
 * @throws {@link IdempotencyOptionsError} if it has no such method.
 */
export function unprotected<Instance extends object>(instance: Instance): Instance {
  const prototype = (Object.getPrototypeOf(instance) ?? {}) as object;
  if (idempotentMethods(prototype).length === 0) {
    throw new IdempotencyOptionsError(
      `unprotected() was given an instance of ${prototype.constructor.name}, which has no idempotent methods besides request handlers. Call it as it is.`,
    );
  }
  return Object.assign(instance, { [METHOD_RUNNER]: new PassThrough() });
}

/** Each execution has a random key; none is required. */
function identityOf(type: Type, handler: Handler): Identity {
  const { operation = nameOf(type, handler) } = idempotentOptions(handler) ?? {};
  return { operation, scope: [], key: randomUUID() };
}

function isSafeRequest(context: ExecutionContext): boolean {
  if (context.getType() !== 'http') return false;
  return isUnprotectedMethod(context.switchToHttp().getRequest<{ method: string }>().method);
}
