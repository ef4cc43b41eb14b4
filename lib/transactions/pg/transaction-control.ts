/** What may stand between the words of a statement. */
const GAP = String.raw`(?:\s|--[^\n\r]*(?:[\n\r]|$)|/\*(?:(?!\*/)[^])*\*/)`;

const CONTROL = new RegExp(
  `^(?:${GAP}|;)*(?:(?:begin|start|commit|end|abort)\\b|prepare${GAP}+transaction\\b` +
    `|rollback\\b(?!${GAP}+(?:(?:work|transaction)${GAP}+)?to\\b))`,
  'i',
);

/** Whether a statement begins or ends a transaction. Savepoints do not. */
export function isTransactionControl(text: string): boolean {
  return CONTROL.test(text);
}

/** A handler begins or ends the transaction that is to be committed with the record. */
export class TransactionControlError extends Error {
  override readonly name = 'TransactionControlError';

  constructor() {
    super(
      'The transaction is begun and ended around the handler, so its handle takes no BEGIN, COMMIT or ROLLBACK. A handler has to throw to roll back; within the transaction there are savepoints.',
    );
  }
}
