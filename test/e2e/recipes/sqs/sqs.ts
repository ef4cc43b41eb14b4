/** What is used of `SQS`, the client of @aws-sdk/client-sqs. */
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

/** A message as it was received this time. */
export interface Received {
  QueueUrl: string;
  ReceiptHandle: string | undefined;
}
