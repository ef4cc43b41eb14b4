export abstract class Mailer {
  abstract send(subject: string): Promise<string>;
}
