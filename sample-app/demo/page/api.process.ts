import { IdempotencyEvents } from 'nestjs-idempotency';
import { validateEnvironment } from '../../src/config/environment.js';
import { startApp } from '../../src/create-app.js';
import { Ledger, type LedgerEntry } from '../../src/ledger/ledger.js';
import type { Report } from './reports.js';

/** One process of the API, as `src/main.ts` starts it, which also reports what the page shows. */
const report = (message: Report) => void process.send?.(message);

// Only the load balancer sends it requests.
process.once('disconnect', () => process.exit());

const app = await startApp(validateEnvironment(process.env));

app.get(IdempotencyEvents).subscribe((event) => {
  const at = Date.now();
  switch (event.type) {
    case 'acquired':
    case 'takeover': {
      const { type, recordKey, attempt } = event;
      report({ type: 'began', recordKey, attempt, isTakeover: type === 'takeover', at });
      break;
    }
    case 'ended': {
      const { recordKey, attempt, how } = event;
      report({ type: 'ended', recordKey, attempt, how, at });
      break;
    }
    default:
  }
});

const ledger = app.get(Ledger);
const append = ledger.append.bind(ledger);
ledger.append = async (entry: LedgerEntry) => {
  await append(entry);
  report({ type: 'charged' });
};

report({ type: 'listening', url: await app.getUrl() });
