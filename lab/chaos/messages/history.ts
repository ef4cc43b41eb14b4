import type { MessageEvidence } from '../../faults/messages/message-evidence.js';
import { recordKeyOf } from '../../faults/extra-executions.js';

/** What is known of one message, line by line, in the order of time. */
export function messageHistory(key: string, { ledger, events, wire }: MessageEvidence): string {
  const record = recordKeyOf(key);
  const lines = [
    ...ledger
      .filter((effect) => effect.key === key)
      .map((effect) => ({ type: 'effect', ...effect })),
    ...events.filter((event) => 'recordKey' in event && event.recordKey === record),
    ...wire.deliveries
      .filter((delivery) => delivery.key === key)
      .map((delivery) => ({ type: 'delivery', ...delivery })),
  ].sort((a, b) => a.at - b.at);
  return [key, ...lines.map((line) => JSON.stringify(line))].join('\n  ');
}
