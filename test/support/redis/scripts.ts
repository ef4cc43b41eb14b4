import type { Redis } from 'ioredis';
import { type LuaScript, type LuaScripts, loadScripts } from '../internals/redis.js';
import { withClock } from '../clocks/injected-clock.js';

/** How many scripts clients have sent so far: each step of the protocol is one. */
export async function scriptCalls(observer: Redis): Promise<number> {
  const statistics = await observer.info('commandstats');
  const [, calls = '0'] = /cmdstat_evalsha:calls=(\d+)/.exec(statistics) ?? [];
  return Number(calls);
}

/** Every text that a store may send, by the name of its script: with and without flags. */
export function scriptTexts(scripts: LuaScripts): (readonly [name: string, script: LuaScript])[] {
  return Object.entries(scripts).flatMap(([name, script]) =>
    [script, script.flagged].flatMap((each) => (each === undefined ? [] : [[name, each] as const])),
  );
}

const { begin } = loadScripts();

/** A record with more bytes is longer than what a script reads first: where nearly every finished record is to be large. */
export const LAST_READ_FIRST = Number(/'GETRANGE', KEYS\[1\], '0', '(\d+)'/.exec(begin.text)?.[1]);

// A list of seconds and microseconds, as TIME returns.
const CLOCK_KEY = 'clock-of-the-scripts';

/** Far ahead of any real clock: Redis itself expires nothing while a test steps that of the scripts. */
export const START_MS = 2_500_000_000_000;

/** What a script reads in place of the server's time. */
export const CLOCK_OF_SCRIPTS = `redis.call('LRANGE', '${CLOCK_KEY}', 0, 1)`;

const clocked = (text: string) => withClock(text, CLOCK_OF_SCRIPTS);

/** The shipped scripts, which read the time that {@link setClock} has set. */
export const clockedScripts = loadScripts(clocked);

export async function setClock(client: Redis, us: number): Promise<void> {
  const time = [Math.floor(us / 1_000_000), us % 1_000_000];
  await client
    .multi()
    .del(CLOCK_KEY)
    .rpush(CLOCK_KEY, ...time)
    .exec();
}
