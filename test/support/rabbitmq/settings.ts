import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeQueueCounts } from './queue-counts.js';

/**
 * How often a channel looks for acknowledgements that are overdue, and a quorum queue counts its messages. By default
 * these take a minute and five seconds.
 */
const QUICK = { channel_tick_interval: 200, quorum_tick_interval: 200 };

/** Settings of RabbitMQ's application `rabbit`; texts are Erlang's way to write a value. */
export type RabbitMqSettings = Readonly<Record<string, string | number>>;

/** Writes what a broker reads from its folder when it starts. */
export function writeSettings(dir: string, settings: RabbitMqSettings): void {
  const cookie = join(dir, '.erlang.cookie');
  if (!existsSync(cookie)) writeFileSync(cookie, 'ONLY_FOR_TESTS', { mode: 0o400 });
  writeFileSync(join(dir, 'enabled_plugins'), '[].');
  writeQueueCounts(dir);
  const terms = Object.entries({ ...QUICK, ...settings }).map(
    ([name, value]) => `{${name}, ${String(value)}}`,
  );
  writeFileSync(join(dir, 'advanced.config'), `[{rabbit, [${terms.join(', ')}]}].`);
}
