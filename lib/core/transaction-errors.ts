/** A handler goes on with a transaction that has ended: nothing of it would be committed with the record. */
export class TransactionOverError extends Error {
  override readonly name = 'TransactionOverError';

  constructor() {
    super(
      'The transaction is over, so its handle takes no more statements. A handler has to await all that it writes before it returns.',
    );
  }
}

/** PostgreSQL rolls back instead of committing, because a statement had failed and the handler went on. */
export class TransactionAbortedError extends Error {
  override readonly name = 'TransactionAbortedError';

  constructor(options?: ErrorOptions) {
    super(
      'The transaction was rolled back, because one of its statements had failed. A handler that catches such an error has to roll back to a savepoint, or throw.',
      options,
    );
  }
}
