import type { CanActivate, ExecutionContext } from '@nestjs/common';
import type { RmqContext } from '@nestjs/microservices';
import type { AmqpConnectionManager } from 'amqp-connection-manager';
import type { Channel, Message } from 'amqplib';
import { FORGED_TAG } from './settings.js';

/**
 * The channel that this process consumes on, as the broker knows it: a guard sees it before the library has put its own
 * in its place.
 */
export class ConsumingChannel implements CanActivate {
  private channel: Channel | undefined;
  /** What had come over it is still handed to the guard. */
  private readonly closed = new WeakSet<Channel>();
  private isLeaving = false;

  /** @param connections - open a channel with every connection. */
  constructor(private readonly connections: () => AmqpConnectionManager) {}

  canActivate(context: ExecutionContext): boolean {
    const channel = context.switchToRpc().getContext<RmqContext>().getChannelRef() as Channel;
    if (channel !== this.channel && !this.closed.has(channel)) this.follow(channel);
    return true;
  }

  /** Closes it, as an application may. */
  async close(): Promise<void> {
    // Two injections may come so close after each other that it is closing already.
    await this.channel?.close().catch(() => undefined);
  }

  /** Has the broker close it, by a word on a message that it never had. */
  breakUp(): void {
    try {
      this.channel?.ack({ fields: { deliveryTag: FORGED_TAG } } as Message);
    } catch {
      // It is closing already.
    }
  }

  /** The process closes down. */
  leave(): void {
    this.isLeaving = true;
  }

  private follow(channel: Channel): void {
    this.channel = channel;
    // Unheard, what the broker closes it for is thrown into amqplib, which gives up the connection then.
    channel.on('error', () => undefined);
    channel.once('close', () => {
      this.closed.add(channel);
      this.channel = undefined;
      if (!this.isLeaving) this.reconnect();
    });
  }

  /** On a connection without its channel nothing would be consumed any more. */
  private reconnect(): void {
    const { connection } = this.connections();
    // One that has ended by itself needs no second end.
    connection?.close().catch(() => undefined);
  }
}
