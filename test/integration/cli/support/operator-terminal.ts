import type { RecordSheet } from 'nestjs-idempotency';
import { runOperator } from '../../../support/internals/cli.js';

type Command = Parameters<typeof runOperator>[0];

export interface Printed {
  readonly code: number;
  readonly text: string;
  /** What is no part of the answer. */
  readonly notes: string;
  /** With `--json`: an object for each line. */
  readonly objects: () => (RecordSheet & { readonly kind: string; readonly state: string })[];
}

/** Runs commands for operators on one store. */
export class OperatorTerminal {
  readonly progress: string[] = [];

  constructor(
    readonly storeUrl: string,
    private readonly environment: Readonly<Record<string, string>> = {},
  ) {}

  async run(command: Command, args: readonly string[] = [], input = ''): Promise<Printed> {
    let text = '';
    let notes = '';
    const code = await runOperator(command, [...args], {
      print: (part) => (text += part),
      note: (part) => (notes += part),
      progress: (part) => this.progress.push(part),
      readInput: () => Promise.resolve(input),
      environment: { IDEMPOTENCY_STORE_URL: this.storeUrl, ...this.environment },
    });
    const objects = () =>
      text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
    return { code, text, notes, objects };
  }
}
