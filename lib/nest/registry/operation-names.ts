import { Injectable } from '@nestjs/common';
import type { ResolvedProtocolOptions } from '../../core/operation/options.js';
import type { Transport } from '../../core/record/events.js';
import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { locationOf, type HandlerFacts } from '../discovery/handler-facts.js';

/** The form of a class name made by Nest's `mixin()`. */
const RANDOM_NAME = /^[0-9a-f]{21}$/;

/** How an operation's requests come, and what applies to them. */
export interface DeclaredOperation {
  readonly transport: Transport;
  readonly options: ResolvedProtocolOptions;
  readonly recoverable: RecoverableOperation | undefined;
}

interface NamedOperation {
  readonly facts: HandlerFacts;
  readonly declared: DeclaredOperation | undefined;
}

/** The names of all operations of handlers and methods. Each name belongs to one of them. */
@Injectable()
export class OperationNames {
  private readonly operations = new Map<string, NamedOperation>();

  has(operation: string): boolean {
    return this.operations.has(operation);
  }

  all(): Iterable<string> {
    return this.operations.keys();
  }

  /** How records of an operation are recovered without a request, if it is resolved and has a function for it. */
  recoverable(operation: string): RecoverableOperation | undefined {
    return this.declared(operation)?.recoverable;
  }

  /** `undefined` for what only its calls know, and for what another IdempotencyModule serves. */
  declared(operation: string): DeclaredOperation | undefined {
    return this.operations.get(operation)?.declared;
  }

  /** @throws {@link IdempotencyOptionsError} for a random name, and for the name of another operation. */
  reserve(operation: string, facts: HandlerFacts, declared: DeclaredOperation | undefined): void {
    const { type, handler, name } = facts;
    if (operation === name && RANDOM_NAME.test(type.name)) {
      throw new IdempotencyOptionsError(
        `@Idempotent() is on a method "${handler.name}" of a class that mixin() of Nest has given a random name, different in every process: no retry would find its record. Name the operation, @Idempotent({ operation: '…' }), differently for each mixed-in class; or create the class without mixin().`,
      );
    }
    const other = this.operations.get(operation)?.facts;
    if (other !== undefined && (other.type !== type || other.handler !== handler)) {
      throw new IdempotencyOptionsError(
        `Two operations are named "${operation}": ${locationOf(other)} and ${locationOf(facts)}. One would replay the other's outcomes. Name them differently by @Idempotent({ operation: '…' }) on the method, or rename a class.`,
      );
    }
    this.operations.set(operation, { facts, declared });
  }

  /** As {@link reserve}, for an operation that another IdempotencyModule serves, whose store may be the same. */
  reserveOther(facts: HandlerFacts): void {
    if (facts.isSafe) return;
    const given = facts.options?.operation ?? facts.classOptions?.operation;
    this.reserve(given ?? facts.name, facts, undefined);
  }
}
