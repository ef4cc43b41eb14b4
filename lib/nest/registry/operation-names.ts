import { Injectable, type Type } from '@nestjs/common';
import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { isSafeRoute } from '../../transports/http/http-route.js';
import { kindsOf } from '../discovery/handler-kinds.js';
import { idempotentOptions, type Handler } from '../discovery/idempotent.metadata.js';
import { HostClasses, nameOf } from './host-classes.js';

/** The form of a class name made by Nest's `mixin()`. */
const RANDOM_NAME = /^[0-9a-f]{21}$/;

interface NamedOperation {
  readonly type: Type;
  readonly handler: Handler;
  readonly recoverable: RecoverableOperation | undefined;
}

/** The names of all operations of handlers and methods. Each name belongs to one of them. */
@Injectable()
export class OperationNames {
  private readonly operations = new Map<string, NamedOperation>();

  constructor(private readonly classes: HostClasses) {}

  has(operation: string): boolean {
    return this.operations.has(operation);
  }

  /** How records of an operation are recovered without a request, if it is resolved and has a function for it. */
  recoverable(operation: string): RecoverableOperation | undefined {
    return this.operations.get(operation)?.recoverable;
  }

  /** @throws {@link IdempotencyOptionsError} for a random name, and for the name of another operation. */
  reserve(
    operation: string,
    type: Type,
    handler: Handler,
    recoverable: RecoverableOperation | undefined,
  ): void {
    if (operation === nameOf(type, handler) && RANDOM_NAME.test(type.name)) {
      throw new IdempotencyOptionsError(
        `@Idempotent() is on a method "${handler.name}" of a class that mixin() of Nest has given a random name, different in every process: no retry would find its record. Name the operation, @Idempotent({ operation: '…' }), differently for each mixed-in class; or create the class without mixin().`,
      );
    }
    const other = this.operations.get(operation);
    if (other !== undefined && (other.type !== type || other.handler !== handler)) {
      throw new IdempotencyOptionsError(
        `Two operations are named "${operation}": ${this.classes.locationOf(other.type, other.handler)} and ${this.classes.locationOf(type, handler)}. One would replay the other's outcomes. Name them differently by @Idempotent({ operation: '…' }) on the method, or rename a class.`,
      );
    }
    this.operations.set(operation, { type, handler, recoverable });
  }

  /** As {@link reserve}, for an operation that another IdempotencyModule serves, whose store may be the same. */
  reserveOther(type: Type, handler: Handler): void {
    if (kindsOf(handler).includes('http') && isSafeRoute(handler)) return;
    const given = idempotentOptions(handler)?.operation ?? idempotentOptions(type)?.operation;
    this.reserve(given ?? nameOf(type, handler), type, handler, undefined);
  }
}
