import { Logger } from '@nestjs/common';
import { IdempotencyService, OperationRejectedError } from 'nestjs-idempotency';
import type { Received, Sqs, SqsMessage } from './sqs.js';

/** How long SQS hides a message from other consumers. A message that is not deleted by then reappears. */
const VISIBILITY_S = 30;

/** Handles each message of a queue once, however often SQS delivers it. */
export class OrdersConsumer {
  private readonly logger = new Logger('Orders');

  constructor(
    private readonly sqs: Sqs,
    private readonly queueUrl: string,
    private readonly idempotency: IdempotencyService,
    private readonly handle: (body: unknown, signal: AbortSignal) => Promise<void>,
  ) {}

  /** Receives once, and settles all received messages. Call it in a loop until the shutdown begins. */
  async poll(): Promise<void> {
    const { Messages = [] } = await this.sqs.receiveMessage({
      QueueUrl: this.queueUrl,
      MaxNumberOfMessages: 10,
      WaitTimeSeconds: 20,
      VisibilityTimeout: VISIBILITY_S,
    });
    await Promise.all(Messages.map((message) => this.settle(message)));
  }

  private async settle({ MessageId = '', ReceiptHandle, Body = '' }: SqsMessage): Promise<void> {
    const received = { QueueUrl: this.queueUrl, ReceiptHandle };
    const call = {
      operation: 'orders.place',
      key: MessageId,
      // Another consumer of the same messages needs another name.
      scope: 'orders-consumer',
      // Delete a message only after its outcome is stored.
      storeErrors: { whenNotSaved: 'error' },
    } as const;
    try {
      await this.idempotency.run(call, async ({ signal }) => {
        const hiding = this.keepHidden(received, signal);
        try {
          await this.handle(JSON.parse(Body), signal);
        } finally {
          clearInterval(hiding);
        }
      });
    } catch (error) {
      // In progress elsewhere, store unavailable, or failed: the message reappears, up to "maxReceiveCount" times.
      if (!(error instanceof OperationRejectedError)) this.logger.error(error);
      return;
    }
    // Completed, now or earlier. If the deletion fails, the message reappears and is deleted then.
    await this.sqs.deleteMessage(received).catch(() => undefined);
  }

  /** Keeps the message hidden while the attempt has its lease: without it, another attempt may have taken over. */
  private keepHidden(received: Received, signal: AbortSignal): NodeJS.Timeout {
    const hide = () => {
      if (signal.aborted) return;
      const longer = { ...received, VisibilityTimeout: VISIBILITY_S };
      // The next interval retries.
      this.sqs.changeMessageVisibility(longer).catch(() => undefined);
    };
    return setInterval(hide, (VISIBILITY_S * 1000) / 3);
  }
}
