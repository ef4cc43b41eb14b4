import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeQueueCounts } from './queue-counts.js';

/**
 * How often a channel checks for overdue acknowledgements, and a quorum queue counts its messages. The
 * defaults are a minute and five seconds.
 */
const QUICK = { channel_tick_interval: 200, quorum_tick_interval: 200 };

/** Settings of RabbitMQ's application `rabbit`; strings are in Erlang's syntax. */
export type RabbitMqSettings = Readonly<Record<string, string | number>>;

/** Writes the files that a broker reads from its folder when it starts. */
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
