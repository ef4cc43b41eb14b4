import type { MessageFigures } from '../../faults/messages/message-oracle.js';
import type { Row } from '../../../support/figures/report.js';
import { inWords } from '../table-text.js';
import type { MessageRunResult } from './run-messages.js';

/** What a run came to, a row for each figure. */
export function rowsOf(result: MessageRunResult): Row[] {
  const { figures, trouble, seconds, deliveriesPerSecond, objections } = result;
  const limits = atMost(figures);
  const { redeliveries, unacknowledgedAtCloses: closed } = figures;
  const rows: [string, string | number][] = [
    ...Object.entries(trouble),
    ['seconds', Math.round(seconds)],
    ['deliveries/s', deliveriesPerSecond],
    ...Object.entries(figures).map(([name, count]): [string, string | number] => {
      const limit = limits[name];
      return [inWords(name), limit === undefined ? count : `${count} (${limit})`];
    }),
    [
      'redeliveries for each unacknowledged message',
      closed === 0 ? '-' : (redeliveries / closed).toFixed(3),
    ],
    ['objections of the oracle', objections.length],
  ];
  return rows.map(([what, count]) => ({ what, count }));
}

/** Where there was no failure in n trials: all that this shows, the "rule of three". */
function atMost(figures: MessageFigures): Readonly<Record<string, string>> {
  const { messages, extraEffects, deliveries } = figures;
  const trials: [keyof MessageFigures, number][] = [
    ['unreported', extraEffects],
    ['withoutADeath', messages],
    ['lost', messages],
    ['acknowledgedTooEarly', deliveries],
    ['thrownAway', deliveries],
  ];
  const none = trials.filter(([name, count]) => figures[name] === 0 && count > 0);
  return Object.fromEntries(none.map(([name, count]) => [name, `< 3/${count} at 95 %`]));
}
