import { randomUUID } from 'node:crypto';
import type { Received, Sqs, SqsMessage } from './sqs.js';

interface QueuedMessage {
  readonly id: string;
  readonly body: string;
  /** In milliseconds; the message is in flight until then. */
  visibleAt: number;
  receives: number;
  /** The handle of the latest receive, the only valid one. */
  receiptHandle: string | undefined;
}

/**
 * A standard SQS queue with a redrive policy, on a clock of the test. Received messages are hidden until their
 * visibility timeout. A receipt handle is valid until the next receive of its message; older ones have no effect.
 */
export class InProcessSqs implements Sqs {
  readonly url = 'https://sqs.eu-central-1.amazonaws.com/123456789012/orders';
  readonly deadLetters: string[] = [];
  private queued: QueuedMessage[] = [];

  constructor(
    private readonly now: () => number,
    private readonly maxReceiveCount = 1_000,
  ) {}

  get length(): number {
    return this.queued.length;
  }

  sendMessage(body: unknown): string {
    const id = randomUUID();
    this.queued.push({
      id,
      body: JSON.stringify(body),
      visibleAt: this.now(),
      receives: 0,
      receiptHandle: undefined,
    });
    return id;
  }

  /** Delivers a message although it is in flight, which "at least once" allows. */
  deliverAgain(id: string): void {
    this.messageOf(id).visibleAt = this.now();
  }

  receivesOf(id: string): number {
    return this.messageOf(id).receives;
  }

  receiveMessage({
    MaxNumberOfMessages,
    VisibilityTimeout,
  }: Parameters<Sqs['receiveMessage']>[0]): Promise<{ Messages?: SqsMessage[] }> {
    const visible = this.queued.filter(({ visibleAt }) => visibleAt <= this.now());
    const spent = visible.filter(({ receives }) => receives >= this.maxReceiveCount);
    this.queued = this.queued.filter((message) => !spent.includes(message));
    this.deadLetters.push(...spent.map(({ id }) => id));
    const received = visible
      .filter((message) => !spent.includes(message))
      .slice(0, MaxNumberOfMessages);
    for (const message of received) {
      message.visibleAt = this.now() + VisibilityTimeout * 1_000;
      message.receives += 1;
      message.receiptHandle = randomUUID();
    }
    if (received.length === 0) return Promise.resolve({});
    return Promise.resolve({
      Messages: received.map(({ id, body, receiptHandle }) => ({
        MessageId: id,
        ReceiptHandle: receiptHandle,
        Body: body,
      })),
    });
  }

  async changeMessageVisibility({
    ReceiptHandle,
    VisibilityTimeout,
  }: Received & { VisibilityTimeout: number }): Promise<void> {
    const message = this.queued.find(({ receiptHandle }) => receiptHandle === ReceiptHandle);
    if (message === undefined) throw sqsError('InvalidParameterValue');
    if (message.visibleAt <= this.now()) throw sqsError('MessageNotInflight');
    message.visibleAt = this.now() + VisibilityTimeout * 1_000;
    return Promise.resolve();
  }

  /** Succeeds with the handle of an earlier receive, but deletes nothing. */
  async deleteMessage({ ReceiptHandle }: Received): Promise<void> {
    this.queued = this.queued.filter(({ receiptHandle }) => receiptHandle !== ReceiptHandle);
    return Promise.resolve();
  }

  private messageOf(id: string): QueuedMessage {
    const message = this.queued.find((each) => each.id === id);
    if (message === undefined) throw new Error('The queue no longer has this message');
    return message;
  }
}

function sqsError(name: string): Error {
  return Object.assign(new Error(name), { name });
}
