import type { TransactionOptions } from '../../core/transaction/unit-of-work.js';
import type { ConnectionLoan } from '../pg/connection-loan.js';

/**
 * The client that Drizzle opens its transaction on. Drizzle's own BEGIN, COMMIT and ROLLBACK become those of the
 * loan, which knows what they came to; between them it is the connection itself.
 */
export class LoanClient {
  private state: 'new' | 'open' | 'ending' = 'new';

  constructor(
    private readonly loan: ConnectionLoan,
    private readonly options: TransactionOptions,
  ) {}

  /** From here on, COMMIT and ROLLBACK are those that end the transaction. */
  end(): void {
    this.state = 'ending';
  }

  query(...request: [{ readonly text: string }, ...unknown[]]): unknown {
    const [{ text }] = request;
    if (this.state === 'new' && /^begin\b/i.test(text)) {
      this.state = 'open';
      return this.loan.begin(this.options);
    }
    if (this.state === 'ending' && /^commit$/i.test(text)) return this.loan.commit();
    if (this.state === 'ending' && /^rollback$/i.test(text)) return this.loan.rollBack();
    return this.loan.query(...request);
  }
}
