/** The methods of `SQS`, the client of @aws-sdk/client-sqs, that this consumer uses. */
export interface Sqs {
  receiveMessage(input: {
    QueueUrl: string;
    MaxNumberOfMessages: number;
    WaitTimeSeconds: number;
    VisibilityTimeout: number;
  }): Promise<{ Messages?: SqsMessage[] | undefined }>;
  changeMessageVisibility(input: Received & { VisibilityTimeout: number }): Promise<unknown>;
  deleteMessage(input: Received): Promise<unknown>;
}

export interface SqsMessage {
  MessageId?: string | undefined;
  ReceiptHandle?: string | undefined;
  Body?: string | undefined;
}

/** Identifies one receive of a message. */
export interface Received {
  QueueUrl: string;
  ReceiptHandle: string | undefined;
}
