import type { Row } from '../../../test/support/docs/figures/report.js';
import { figuresInWords, type Figure } from '../table-text.js';
import type { MessageRunResult } from './run-messages.js';

/** What a run came to, a row for each figure. */
export function rowsOf(result: MessageRunResult): Row[] {
  const { figures, trouble, seconds, deliveriesPerSecond, objections } = result;
  const { messages, deliveries, extraEffects } = figures;
  const { redeliveries, unacknowledgedAtCloses: closed } = figures;
  const rows: Figure[] = [
    ...Object.entries(trouble),
    ['seconds', Math.round(seconds)],
    ['deliveries/s', deliveriesPerSecond],
    ...figuresInWords(figures, {
      unreported: extraEffects,
      withoutADeath: messages,
      lost: messages,
      acknowledgedTooEarly: deliveries,
      discarded: deliveries,
    }),
    [
      'redeliveries for each unacknowledged message',
      closed === 0 ? '-' : (redeliveries / closed).toFixed(3),
    ],
    ['objections of the oracle', objections.length],
  ];
  return rows.map(([what, count]) => ({ what, count }));
}
