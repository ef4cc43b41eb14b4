import { expect } from '@jest/globals';
import { messagePlanOf } from '../../chaos/messages/arguments.js';
import { messageHistory } from '../../chaos/messages/history.js';
import { runMessagesOn } from '../../chaos/messages/run-messages.js';
import type { MessageServers } from './message-servers.js';

export interface Dose {
  readonly messages: number;
  readonly kills: number;
  readonly closes: number;
}

/** Kills two consumers and closes their channels, and lets the oracle check the messages. */
export async function expectEachHandledOnce(
  servers: MessageServers,
  { messages, kills, closes }: Dose,
): Promise<void> {
  const plan = messagePlanOf([
    ...['--messages', String(messages), '--deliveries', String(3 * messages), '--consumers', '2'],
    ...['--kills', String(kills), '--points', 'after_effect,after_complete'],
    ...['--closes', String(closes), '--seed', '1'],
    // A consumer that waits for a processor is not to lose its lease.
    ...['--lease-ms', '4000'],
  ]);
  const { figures, trouble, objections, suspects, evidence } = await runMessagesOn(servers, plan);

  const histories = suspects.map((key) => messageHistory(key, evidence));
  expect([...objections, ...histories]).toEqual([]);
  expect(trouble['kill -9']).toBeGreaterThanOrEqual(kills);
  expect(figures.messages).toBe(messages);
  expect(figures.redeliveries).toBeGreaterThan(0);
  expect(figures.reportedAsTakeover).toBe(figures.extraEffects);
}
