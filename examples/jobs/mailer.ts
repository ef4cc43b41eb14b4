export abstract class Mailer {
  abstract sendReport(options: {
    readonly idempotencyKey: string;
    readonly signal: AbortSignal;
  }): Promise<void>;
}
