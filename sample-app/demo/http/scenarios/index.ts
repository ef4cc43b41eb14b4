import type { Scenario } from '../scenario.js';
import { anotherBody } from './another-body.js';
import { anotherUser } from './another-user.js';
import { concurrentDuplicates } from './concurrent-duplicates.js';
import { declinedCard } from './declined-card.js';
import { allClientsRetry } from './all-clients-retry.js';
import { frozenProcess } from './frozen-process.js';
import { killedProcess } from './killed-process.js';
import { largeInvoice } from './large-invoice.js';
import { settledByOperator } from './settled-by-operator.js';
import { storeDown } from './store-down.js';

/** In order of execution: later scenarios use the payments of earlier ones; the last one stops Redis. */
export const scenarios: readonly Scenario[] = [
  concurrentDuplicates,
  allClientsRetry,
  anotherBody,
  anotherUser,
  declinedCard,
  largeInvoice,
  killedProcess,
  frozenProcess,
  settledByOperator,
  storeDown,
];
