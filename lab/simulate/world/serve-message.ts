import type { CallHandler, ExecutionContext } from '@nestjs/common';
import { defer } from 'rxjs';
import { executionScope, ExecutionScope } from '../../../test/support/internals/core.js';
import type { MessageRoute } from '../../../test/support/internals/message.js';
import { CALLER } from '../../faults/client.js';
import { handle } from './handle.js';
import { failureResponse, rejectionResponse } from './serve-call.js';
import type { SimulatedOperation } from './operations.js';
import type { OutcomeBody, SimulatedRequest } from './request.js';

/** A handler's method: its identity counts. */
function handler(): void {
  // It is called by the simulation.
}

function routeOf(operation: SimulatedOperation, content: string): MessageRoute {
  const { name, options } = operation;
  return {
    operation: name,
    handler: name,
    consumer: CALLER,
    isEventHandler: false,
    fingerprint: () => operation.fingerprintOf(content),
    options: {
      ...options,
      enabled: true,
      key: { from: messageIdOf, required: true, maxLength: 255, uniqueFor: 'operation' },
      caller: { anonymous: 'reject' },
      message: { onFailure: 'requeue', redeliveryDelay: 50, maxPause: 2_000 },
    },
  } as unknown as MessageRoute;
}

/** What is used of it. */
interface SimulatedMessage {
  readonly properties: { readonly messageId: string };
}

function messageIdOf(context: ExecutionContext): string {
  const host = context.switchToRpc().getContext<{ getMessage: () => SimulatedMessage }>();
  return host.getMessage().properties.messageId;
}

/**
 * As Nest's RabbitMQ server does it with a request whose sender waits for a reply. The broker takes an ack only while
 * the process lives; without one, it delivers the message again.
 */
export function serveMessage(request: SimulatedRequest): Promise<void> {
  const { process, intent, world } = request;
  const { operation, key, content } = intent;
  const route = routeOf(operation, content);
  return new Promise((resolve) => {
    let closed: (() => void) | undefined;
    request.disconnection.signal.addEventListener('abort', () => closed?.());
    let isAcknowledged = false;
    let hasReplied = false;
    const acknowledged = (action: string) => {
      if (!process.isAlive) return;
      if (isAcknowledged) world.object(`a message of ${key} was acknowledged twice`);
      if (!hasReplied) world.object(`a message of ${key} was acknowledged before its end`);
      isAcknowledged = true;
      world.coverage.count('acks', action);
      resolve();
    };
    const message = {
      fields: { deliveryTag: request.id, redelivered: world.operationRandom.chance(0.3) },
      properties: { messageId: key, replyTo: 'replies', correlationId: String(request.id) },
    };
    const channel = {
      ack: () => acknowledged('ack'),
      nack: () => acknowledged('nack'),
      reject: () => acknowledged('reject'),
      ackAll: () => undefined,
      nackAll: () => undefined,
      once: (_: 'close', listener: () => void) => {
        closed = listener;
      },
    };
    const host = {
      getMessage: () => message,
      getChannelRef: () => channel,
      getPattern: () => operation.name,
    };
    const context = {
      getType: () => 'rpc',
      getClass: () => Object,
      getHandler: () => handler,
      switchToRpc: () => ({ getContext: () => host, getData: () => content }),
    } as unknown as ExecutionContext;
    const next: CallHandler = { handle: () => defer(() => handle(request, currentScope())) };
    process.messages.intercept(context, next, route).subscribe({
      next: (value) => {
        hasReplied = true;
        const body = value as OutcomeBody | undefined;
        const isOwn = body === undefined || world.isOwn(request, body);
        // Its reply has no mark. What a recovery has found counts as its own.
        const replayed = !isOwn && operation.plan.onTakeover !== 'recover';
        request.respond({ status: 201, replayed, body });
      },
      error: (error: unknown) => {
        hasReplied = true;
        respondTo(request, error);
      },
    });
  });
}

/** The reply to a request whose handling failed, as a client gets it. */
function respondTo(request: SimulatedRequest, error: unknown): void {
  const { getError } = error as { getError?: () => unknown };
  if (getError === undefined) {
    request.respond(failureResponse(error, false));
    return;
  }
  const rejection = getError.call(error) as { code: string; retryAfterMs?: number };
  request.respond(rejectionResponse(rejection));
}

function currentScope(): ExecutionScope {
  const scope = executionScope.getStore();
  if (scope instanceof ExecutionScope) return scope;
  throw new Error('The handler has no scope.');
}
