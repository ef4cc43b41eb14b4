import type { Evidence } from '../faults/evidence.js';
import { recordKeyOf } from '../faults/extra-executions.js';

/** What is known of one key, line by line, in the order of time. */
export function historyOf(key: string, { ledger, events, clients }: Evidence): string {
  const record = recordKeyOf(key);
  const effects = ledger
    .filter((effect) => effect.key === key)
    .map((effect) => ({ type: 'effect', ...effect }));
  const reported = events.filter((event) => 'recordKey' in event && event.recordKey === record);
  const seen = [...(clients.keys.get(key)?.successes.values() ?? [])].map((success) => ({
    type: 'success seen by a client',
    at: success.firstAt,
    ...success,
  }));
  const lines = [...effects, ...reported, ...seen].sort((a, b) => a.at - b.at);
  return [key, ...lines.map((line) => JSON.stringify(line))].join('\n  ');
}
