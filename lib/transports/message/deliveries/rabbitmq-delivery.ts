import { errorMonitor, setMaxListeners } from 'node:events';
import { Logger } from '@nestjs/common';
import { executionScope } from '../../../core/operation/execution-scope.js';
import { IdempotencyOptionsError } from '../../../core/errors/errors.js';
import { forget } from '../../../core/util/maybe-async.js';
import { SymbolSlot } from '../../../core/util/symbol-slot.js';
import type { RabbitMqChannel, RabbitMqMessage } from '../source/rpc-context.js';

/** What the broker does with a message; `'dead-letter'` discards it without a dead-letter exchange. */
export type AckAction = 'accept' | 'requeue' | 'dead-letter';

/**
 * How a message is acknowledged. RabbitMQ counts each requeue towards a quorum queue's `x-delivery-limit` until 4.2. From
 * 4.3 on it counts a `reject`, which says that the message could not be handled, and no `nack`, which says that its
 * consumer could not handle it now.
 */
export interface Ack {
  readonly action: AckAction;
  readonly method: 'ack' | 'nack' | 'reject';
}

export const ACCEPTED: Ack = { action: 'accept', method: 'ack' };
/** The message is not at fault: it is in progress elsewhere, or the store or this process is not available. */
export const RETURNED: Ack = { action: 'requeue', method: 'nack' };

/** The message could not be handled. */
export function failed(action: 'requeue' | 'dead-letter'): Ack {
  return { action, method: 'reject' };
}

/** The handler returned after it had requeued or dead-lettered its message itself. */
export class ReturnedByHandlerError extends Error {
  override readonly name = 'ReturnedByHandlerError';
}

interface Acknowledged {
  /** While its handler may still run. */
  readonly delivery: RabbitMqDelivery | undefined;
}

/**
 * Intercepts the application's acks of messages in progress: they are noted and not sent. A crash between an ack and
 * the stored outcome would lose the message, and on a second ack the broker closes the channel and requeues all
 * messages in progress. Replaces the channel's own methods, because the application may already have the channel.
 */
export class AckInterceptor {
  private static readonly known = new SymbolSlot<AckInterceptor>('ack-interceptor');

  /**
   * The channel's interceptor, installed by the first call.
   * @param brokerCloses - called if the broker closes the channel, and not its connection.
   */
  static of(channel: RabbitMqChannel, brokerCloses?: () => void): AckInterceptor {
    const known = AckInterceptor.known.get(channel);
    if (known !== undefined) return known;
    const interceptor = new AckInterceptor(channel);
    if (brokerCloses !== undefined) channel.once(errorMonitor, brokerCloses);
    AckInterceptor.known.set(channel, interceptor);
    return interceptor;
  }

  /** Aborted when the channel closes. */
  readonly closed: AbortSignal;
  /** By their delivery tags: the application may pass a copy of a message. */
  private readonly inProgress = new Map<number, RabbitMqDelivery>();
  private readonly acknowledged = new SymbolSlot<Acknowledged>('acknowledged');
  private readonly own: Pick<RabbitMqChannel, 'ack' | 'nack' | 'reject'>;
  /** The tags of the consumers that this process has ended. */
  private readonly ended = new Set<string>();

  private constructor(private readonly channel: RabbitMqChannel) {
    const end = new AbortController();
    // Every paused message listens to it: as many as the channel prefetches.
    setMaxListeners(0, end.signal);
    channel.once('close', () => {
      end.abort();
    });
    this.closed = end.signal;
    const own = {
      ack: channel.ack.bind(channel),
      nack: channel.nack.bind(channel),
      reject: channel.reject.bind(channel),
      ackAll: channel.ackAll.bind(channel),
      nackAll: channel.nackAll.bind(channel),
    };
    this.own = own;
    channel.ack = (message, allUpTo = false) => {
      if (allUpTo) this.checkBulk('ack');
      if (!this.intercepts(message, ACCEPTED)) own.ack(message, allUpTo);
    };
    channel.nack = (message, allUpTo = false, requeue = true) => {
      if (allUpTo) this.checkBulk('nack');
      const action = requeue ? 'requeue' : 'dead-letter';
      if (!this.intercepts(message, { action, method: 'nack' })) {
        own.nack(message, allUpTo, requeue);
      }
    };
    channel.reject = (message, requeue = true) => {
      if (!this.intercepts(message, failed(requeue ? 'requeue' : 'dead-letter'))) {
        own.reject(message, requeue);
      }
    };
    channel.ackAll = () => {
      this.checkBulk('ackAll');
      own.ackAll();
    };
    channel.nackAll = (requeue) => {
      this.checkBulk('nackAll');
      own.nackAll(requeue);
    };
  }

  /** One object for all calls of a message: an interceptor may retry the handler. */
  deliveryOf(message: RabbitMqMessage, operation: string): RabbitMqDelivery {
    const known = this.find(message);
    if (known !== undefined) return known;
    const isEarly = this.acknowledged.get(message) !== undefined;
    const delivery = new RabbitMqDelivery(message, this, operation, isEarly);
    if (isEarly) this.acknowledged.set(message, { delivery });
    else this.inProgress.set(message.fields.deliveryTag, delivery);
    return delivery;
  }

  /** Acknowledges a message in progress. Later acks of it are not sent. */
  acknowledge(message: RabbitMqMessage, { action, method }: Ack): void {
    this.acknowledged.set(message, { delivery: this.find(message) });
    this.inProgress.delete(message.fields.deliveryTag);
    const isRequeued = action === 'requeue';
    try {
      if (method === 'ack') this.own.ack(message);
      else if (method === 'nack') this.own.nack(message, false, isRequeued);
      else this.own.reject(message, isRequeued);
    } catch {
      // The channel has closed, and says so itself. The message is redelivered, and its outcome is stored.
      return;
    }
  }

  /** Whether this process has ended the consumer of a message, and may get messages that were sent before. */
  hasEnded({ fields: { consumerTag } }: RabbitMqMessage): boolean {
    return consumerTag !== undefined && this.ended.has(consumerTag);
  }

  /**
   * Ends the consumer of a message, so that what it returns goes to another one. @returns `false` if the client cannot
   * do it.
   */
  endConsumer(message: RabbitMqMessage): boolean {
    const { consumerTag } = message.fields;
    if (consumerTag === undefined || typeof this.channel.cancel !== 'function') return false;
    if (this.ended.has(consumerTag)) return true;
    this.ended.add(consumerTag);
    try {
      // Closing the channel, which follows, ends the consumer, too.
      forget(this.channel.cancel(consumerTag));
      return true;
    } catch {
      // The channel has closed, and the broker has its messages.
      return false;
    }
  }

  private find(message: RabbitMqMessage): RabbitMqDelivery | undefined {
    return (
      this.inProgress.get(message.fields.deliveryTag) ?? this.acknowledged.get(message)?.delivery
    );
  }

  private intercepts(message: RabbitMqMessage, ack: Ack): boolean {
    const delivery = this.find(message);
    delivery?.onAck(ack);
    if (delivery !== undefined || this.acknowledged.get(message) !== undefined) return true;
    this.acknowledged.set(message, { delivery: undefined });
    return false;
  }

  private checkBulk(method: string): void {
    if (this.inProgress.size === 0) return;
    throw new IdempotencyOptionsError(
      `${method}() was called for several messages at once, some of which have @Idempotent() handlers and no stored outcome yet. Do not acknowledge these: the library does so when their outcomes are stored.`,
    );
  }
}

/** A delivery of RabbitMQ, which redelivers it unless it is acknowledged. */
export class RabbitMqDelivery {
  /** The first ack that the handler requested, and the first that code outside of it requested. */
  private readonly requested: { handler?: Ack; other?: Ack } = {};
  /** While the handler runs. */
  private running: { isAbandoned(): boolean; onAck(): void } | undefined;
  private sent: Ack | undefined;
  /** It may have come back to the consumer that has returned it. */
  private readonly isLate: boolean;

  /** @param isEarly - whether the application has acknowledged the message already. */
  constructor(
    private readonly message: RabbitMqMessage,
    private readonly channel: AckInterceptor,
    private readonly operation: string,
    private readonly isEarly: boolean,
  ) {
    this.isLate = channel.hasEnded(message);
    if (!isEarly) return;
    warn(
      `${operation}: a message was acknowledged before @Idempotent() received it, by a guard, an interceptor or a pipe. If its handling fails, it is lost. Let the handler acknowledge it, or nothing.`,
    );
  }

  /** Aborted when the broker revokes the delivery: another consumer may have the message then. */
  get revoked(): AbortSignal {
    return this.channel.closed;
  }

  /** The message was delivered before. */
  get isRedelivered(): boolean {
    return this.message.fields.redelivered;
  }

  /** The application's, and the handler's before all others. */
  get requestedAck(): Ack | undefined {
    return this.requested.handler ?? this.requested.other;
  }

  /** The handler itself has requeued or dead-lettered the message: its return is not a success. */
  get isReturnedByHandler(): boolean {
    return (this.requested.handler ?? ACCEPTED).action !== 'accept';
  }

  /**
   * Runs the handler. Acks meanwhile are the handler's, from any async context, unless the result has no subscriber any
   * more (`isAbandoned`): then an outer timeout's exception filter may acknowledge the message, too. After the key is
   * lost, the application's ack is sent at once, in case the handler never ends; a requeued message would run beside it.
   * @throws {@link ReturnedByHandlerError}
   */
  async run<Result>(
    handler: () => Promise<Result>,
    isAbandoned: () => boolean,
    keyLost: AbortSignal | undefined,
  ): Promise<Result> {
    const onAck = () => {
      if (keyLost?.aborted !== true) return;
      if (this.requestedAck?.action === 'accept') this.acknowledge(ACCEPTED);
    };
    keyLost?.addEventListener('abort', onAck);
    this.running = { isAbandoned, onAck };
    let result: Result;
    try {
      result = await handler();
    } finally {
      this.running = undefined;
      keyLost?.removeEventListener('abort', onAck);
    }
    if (this.isReturnedByHandler) throw new ReturnedByHandlerError();
    return result;
  }

  /** Notes an ack of the application. */
  onAck(ack: Ack): void {
    const { running, requested } = this;
    const isHandlers = executionScope.getStore() !== undefined || running?.isAbandoned() === false;
    requested[isHandlers ? 'handler' : 'other'] ??= ack;
    running?.onAck();
    this.warnUnlessSent(ack);
  }

  /** Acknowledges the message; later calls do nothing. */
  acknowledge(ack: Ack): void {
    if (this.isEarly || this.sent !== undefined) return;
    this.sent = ack;
    this.channel.acknowledge(this.message, ack);
    this.warnUnlessSent(this.requestedAck);
  }

  /**
   * Leaves the message to another consumer, because this process shuts down. A message that may come from this very
   * consumer stays unacknowledged until the channel closes: it would go to and fro.
   */
  leave(): void {
    if (!this.isLate && this.channel.endConsumer(this.message)) this.acknowledge(RETURNED);
  }

  private warnUnlessSent(requested = this.sent): void {
    const { operation, sent } = this;
    if (sent === undefined || requested?.action === sent.action) return;
    warn(
      `${operation}: a message got "${sent.action}" and not "${String(requested?.action)}", which was requested too late or by code outside of its handler that had succeeded. Decide in the handler before it returns, or in an exception filter before it awaits anything.`,
    );
  }
}

const logger = new Logger('Idempotency');
const warned = new Set<string>();

/** Once per line: it concerns each message of a handler. */
function warn(text: string): void {
  if (warned.has(text)) return;
  warned.add(text);
  logger.warn(`${text} [IDEMPOTENCY_ACK_OUTSIDE_HANDLER]`);
}
